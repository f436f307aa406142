//! The replay law across targets: recordings of the simulator make the native
//! core and the engine component say the same, byte for byte. The two are
//! compared in the words of the WIT, into which `mirror` puts what the core
//! says; that no case is missing there is the compiler's business.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it counted"
)]

use mcp_proxy_core::record::{Reader, Start};
use mcp_proxy_core::{Input, Side, Source, Time};
use mcp_proxy_engine_tests::{Engine, Instance, Proxy, config, deadline, input, machine, output};
use mcp_proxy_sim::{Size, record};
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const RECORDINGS: u64 = 1000;
const TICKS: u32 = 100_000;

#[test]
fn the_engine_says_what_the_native_core_says() {
    let engine = engine();
    let mut sum = Sum::default();
    for seed in 0..RECORDINGS {
        let lines = record(seed, Size::default()).unwrap().lines;
        sum.play(&mut engine.instantiate().unwrap(), seed, &lines);
    }
    let Sum { facts, outputs, native, inside } = sum;
    println!("engine: {RECORDINGS} recordings, {facts} facts, {outputs} outputs: the same natively and inside");
    println!(
        "engine: a fact and its outputs: {:.2} µs inside, {:.2} µs natively",
        micros(inside, facts),
        micros(native, facts)
    );
}

#[test]
fn notes_cross_only_to_a_host_that_reads_them() {
    let engine = engine();
    let mut notes = 0;
    for seed in 0..20 {
        let lines = record(seed, Size::default()).unwrap().lines;
        let (mut reader, start) = Reader::start(&lines[0]).unwrap();
        let mut instance = engine.instantiate().unwrap();
        let loud = settings(&start, &lines[0]);
        let quiet = machine::Config { notes: false, ..settings(&start, &lines[0]) };
        let [loud, quiet] = [loud, quiet].map(|config| create(&mut instance, &config, &start));
        for line in &lines[1..] {
            let (at, fact) = reader.next(line).unwrap();
            let [mut all, rest] = [loud, quiet].map(|proxy| {
                instance.handle(proxy, at.0, &input(&fact.input())).unwrap();
                instance.poll(proxy).unwrap()
            });
            let count = all.len();
            all.retain(|output| !matches!(output, machine::Output::Note(_)));
            notes += count - all.len();
            assert_eq!(all, rest, "seed {seed}: {line}");
        }
    }
    assert!(notes > 0, "nothing was noted");
}

/// What the crossing itself costs: an early tick changes nothing.
#[test]
fn one_call_costs() {
    let mut instance = engine().instantiate().unwrap();
    let config = instance.defaults("http://h/mcp").unwrap().unwrap();
    let proxy = instance.create(&config, 1, 0).unwrap().unwrap();
    let start = Instant::now();
    for _ in 0..TICKS {
        instance.handle(proxy, 0, &machine::Input::Tick).unwrap();
        assert_eq!(instance.poll(proxy).unwrap(), []);
    }
    println!("engine: handle + poll of an early tick: {:.2} µs", micros(start.elapsed(), u64::from(TICKS)));
}

#[derive(Default)]
struct Sum {
    facts: u64,
    outputs: u64,
    native: Duration,
    inside: Duration,
}

impl Sum {
    /// Plays one recording twice, and compares after every fact.
    fn play(&mut self, instance: &mut Instance, seed: u64, lines: &[String]) {
        let (mut reader, start) = Reader::start(&lines[0]).unwrap();
        let (mut native, inside) = (start.machine(), create(instance, &settings(&start, &lines[0]), &start));
        for line in &lines[1..] {
            let (at, fact) = reader.next(line).unwrap();
            let said = self.natively(&mut native, at, fact.input());
            let echoed = self.inside(instance, inside, at, &input(&fact.input()));
            assert_eq!(said, echoed, "seed {seed}: {line}");
            let due = native.deadline().map(deadline);
            assert_eq!(due, instance.deadline(inside).unwrap(), "seed {seed}: {line}");
            let wants = native.wants(Source::Side(Side::Client));
            assert_eq!(wants, instance.wants_client(inside).unwrap(), "seed {seed}: {line}");
            self.facts += 1;
            self.outputs += said.len() as u64;
        }
    }

    fn natively(&mut self, proxy: &mut mcp_proxy_core::Proxy, at: Time, fact: Input<'_>) -> Vec<machine::Output> {
        let start = Instant::now();
        proxy.handle(at, fact);
        let said: Vec<_> = std::iter::from_fn(|| proxy.poll()).collect();
        self.native += start.elapsed();
        said.into_iter().map(output).collect()
    }

    fn inside(
        &mut self,
        instance: &mut Instance,
        proxy: Proxy,
        at: Time,
        fact: &machine::Input,
    ) -> Vec<machine::Output> {
        let start = Instant::now();
        instance.handle(proxy, at.0, fact).unwrap();
        let said = instance.poll(proxy).unwrap();
        self.inside += start.elapsed();
        said
    }
}

/// The settings of a recorded machine.
fn settings(start: &Start, first: &str) -> machine::Config {
    let first: Value = serde_json::from_str(first).unwrap();
    config(&start.config, first["url"].as_str().unwrap())
}

/// A machine in the engine that begins like the recorded one.
fn create(instance: &mut Instance, config: &machine::Config, start: &Start) -> Proxy {
    instance.create(config, start.seed, start.now.0).unwrap().unwrap()
}

fn micros(time: Duration, count: u64) -> f64 {
    time.as_secs_f64() * 1e6 / count as f64
}

fn engine() -> Engine {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    Engine::load(&root.join("dist/mcp-engine.wasm")).unwrap()
}
