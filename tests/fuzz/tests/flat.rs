//! What a call leaves behind: nothing. In a process of its own, since the bytes
//! of the whole process are counted.

use mcp_proxy_fuzz::in_use_after;

#[test]
fn a_call_leaves_nothing_behind() {
    let _ = in_use_after(10);
    let measured: Vec<[usize; 3]> = (0..3).map(|_| [100, 1000, 10_000].map(in_use_after)).collect();
    // The test runner's own threads are counted too, and may allocate meanwhile. A leak shows every time.
    let flat = measured.iter().any(|[few, more, many]| few == more && more == many);
    assert!(flat, "bytes after 100, 1,000 and 10,000 calls: {measured:?}");
}
