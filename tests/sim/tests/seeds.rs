//! Many seeds, or one.
//!
//! `SIM_SEEDS=20000 cargo test -p mcp-proxy-sim seeds` plays more of them,
//! `SIM_SEED=7 cargo test -p mcp-proxy-sim replay -- --nocapture` shows one.

#[test]
fn seeds() {
    let count: u64 = std::env::var("SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2000);
    let (mut requests, mut faults, mut lasted) = (0, 0, 0);
    for seed in 0..count {
        match mcp_proxy_sim::check(seed) {
            Ok(stats) => {
                requests += stats.requests;
                faults += stats.faults;
                lasted += stats.lasted;
            }
            Err(failure) => {
                panic!("{}\nseed {} {:?}:\n{}", failure.log, failure.seed, failure.size, failure.reasons.join("\n"))
            }
        }
    }
    println!("sim: {count} seeds, {requests} requests, {faults} faults injected, {} virtual s", lasted / 1000);
}

#[test]
fn recordings() {
    let mut facts = 0;
    for seed in 0..500 {
        let recording = mcp_proxy_sim::record(seed).unwrap();
        facts += recording.lines.len();
        assert_eq!(recording.said, recording.replay().unwrap(), "seed {seed}");
    }
    println!("sim: {facts} recorded facts replayed");
}

#[test]
fn replay() {
    let seed = std::env::var("SIM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let log = mcp_proxy_sim::replay(seed);
    assert_eq!(log, mcp_proxy_sim::replay(seed), "the same seed is the same run");
    println!("{log}");
}
