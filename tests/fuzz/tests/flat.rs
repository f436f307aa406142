//! What a call leaves behind: nothing. In a process of its own, since the bytes
//! of the whole process are counted.

use mcp_proxy_fuzz::in_use_after;

#[test]
fn a_call_leaves_nothing_behind() {
    let _ = in_use_after(10);
    let [few, more, many] = [100, 1000, 10_000].map(in_use_after);
    assert!(few == more && more == many, "{few}, {more} and {many} bytes after 100, 1,000 and 10,000 calls");
}
