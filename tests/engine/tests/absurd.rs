//! No fact traps the engine, from a host that keeps none of its promises: it
//! makes up calls, statuses and headers, reads what nobody wants, reports more
//! than was written, lets time run backwards, and talks on after the end.
//! Memory stays within the machine's bound, and nothing follows `exit`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it counted"
)]

use mcp_proxy_engine_tests::machine::{
    Asked, CallError, Config, ConfigError, Head, HttpTransport, Input, KeepAlive, Output, Quirks, Side, Sink, Source,
    Transport,
};
use mcp_proxy_engine_tests::{Engine, Instance, Proxy};
use std::path::PathBuf;

const SEEDS: u64 = 32;
const STEPS: u64 = 4000;
/// Facts after the end before a new machine takes over.
const AFTER: u64 = 50;
/// What a machine may hold beside messages (ARCHITECTURE.md, Memory).
const BOUND: usize = 64 << 20;
const LARGEST: u32 = 1 << 20;
const SESSION: &str = "absurd";

#[test]
fn no_fact_traps_and_memory_stays_bounded() {
    let engine = engine();
    let (mut outputs, mut machines, mut peak) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut host = Host::new(engine.instantiate().unwrap(), seed);
        (0..STEPS).for_each(|_| host.step());
        outputs += host.outputs;
        machines += host.machines;
        peak = peak.max(host.instance.memory());
    }
    assert!(peak <= BOUND + 6 * LARGEST as usize, "an instance grew to {peak} bytes");
    assert!(outputs > SEEDS * STEPS / 10 && machines > SEEDS, "the host was too dull: {outputs}, {machines}");
    println!(
        "engine: {} absurd facts to {machines} machines, {outputs} outputs, no trap; at most {} KiB of memory",
        SEEDS * STEPS,
        peak >> 10
    );
}

#[test]
fn a_bad_configuration_is_a_typed_result() {
    let mut instance = engine().instantiate().unwrap();
    for url in ["", "h/mcp", "ftp://h/", "http://", "http://h:99999/", "http://\0/", "\u{1f980}"] {
        let error = ConfigError::Url(url.to_owned());
        assert_eq!(instance.defaults(url).unwrap().unwrap_err(), error);
        let config = Config { url: url.to_owned(), ..instance.defaults("http://h/").unwrap().unwrap() };
        assert_eq!(instance.create(&config, 1, 0).unwrap().err(), Some(error));
    }
    for (name, value) in [("", "x"), ("a b", "x"), ("x-\u{e9}", "x"), ("x", "a\nb"), ("x", "\0")] {
        let headers = vec![("fine".to_owned(), b"\xff".to_vec()), (name.to_owned(), value.into())];
        let config = Config { headers, ..instance.defaults("http://h/").unwrap().unwrap() };
        assert_eq!(instance.create(&config, 1, 0).unwrap().err(), Some(ConfigError::Header(name.to_owned())));
    }
}

/// The worst of hosts, on seeded dice.
struct Host {
    instance: Instance,
    proxy: Proxy,
    dice: Dice,
    now: u64,
    /// The last call that was asked for.
    call: u64,
    /// Facts since the end, once there was one.
    over: Option<u64>,
    outputs: u64,
    machines: u64,
}

impl Host {
    fn new(mut instance: Instance, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let proxy = create(&mut instance, &mut dice);
        Self { instance, proxy, dice, now: 0, call: 0, over: None, outputs: 0, machines: 1 }
    }

    fn step(&mut self) {
        self.now = self.time();
        let fact = self.fact();
        self.instance.handle(self.proxy, self.now, &fact).unwrap();
        if self.dice.one_in(8) {
            return; // Whether it is drained after each fact or after many is the host's choice.
        }
        for output in self.instance.poll(self.proxy).unwrap() {
            self.carry_out(&output);
        }
        let due = self.instance.deadline(self.proxy).unwrap();
        let source = if self.dice.one_in(2) { Source::Side(Side::Client) } else { Source::Call(self.id()) };
        let wants = self.instance.wants(self.proxy, source).unwrap();
        if let Some(facts) = &mut self.over {
            assert!(due.is_none() && !wants, "the end is the end");
            *facts += 1;
        }
        if self.over > Some(AFTER) {
            self.begin_again();
        }
    }

    fn carry_out(&mut self, output: &Output) {
        assert_eq!(self.over, None, "{output:?} follows the end");
        self.outputs += 1;
        match output {
            Output::Call(request) => self.call = request.call,
            Output::Exit(_) => self.over = Some(0),
            Output::Write((Side::Client, line)) => assert_eq!(line.last(), Some(&b'\n')),
            Output::Cancel(_)
            | Output::Note(_)
            | Output::Snapshot(_)
            | Output::Respond(_)
            | Output::Send(_)
            | Output::Finish(_)
            | Output::Abort(_) => {}
        }
    }

    fn begin_again(&mut self) {
        self.instance.close(self.proxy).unwrap();
        self.proxy = create(&mut self.instance, &mut self.dice);
        (self.now, self.over) = (0, None);
        self.machines += 1;
    }

    fn time(&mut self) -> u64 {
        match self.dice.below(200) {
            0 => self.dice.next(),
            1 => 0,
            2..10 => self.now.saturating_sub(self.dice.below(100_000)),
            10..40 => self.instance.deadline(self.proxy).unwrap().map_or(self.now, |due| due.at),
            _ => self.now.saturating_add(self.dice.below(50)),
        }
    }

    fn fact(&mut self) -> Input {
        match self.dice.below(1000) {
            0..3 => Input::Eof(Side::Client),
            3 => Input::Stop,
            4 => Input::Shutdown,
            5..10 => Input::Waiting("waiting for a person".to_owned()),
            10..100 => Input::Tick,
            100..400 => Input::Bytes((Side::Client, self.line())),
            400..650 => Input::Head(self.head()),
            650..710 => Input::Asked(self.asked()),
            710..720 => Input::Gone(self.id()),
            720..740 => Input::Flushed((Sink::Exchange(self.id()), self.number())),
            740..850 => Input::Chunk((self.id(), self.body())),
            850..900 => Input::End(self.id()),
            900..940 => Input::Failed((self.id(), self.error(), self.words())),
            940..970 => Input::Flushed((Sink::Side(Side::Client), self.number())),
            _ => Input::Flushed((Sink::Call(self.id()), self.number())),
        }
    }

    /// Mostly a call that there is, or was not long ago.
    fn id(&mut self) -> u64 {
        match self.dice.below(10) {
            0 => self.dice.next(),
            1..4 => self.call.saturating_sub(self.dice.below(4)),
            _ => self.call,
        }
    }

    fn number(&mut self) -> u64 {
        let bits = self.dice.below(64);
        self.dice.next() >> bits
    }

    fn line(&mut self) -> Vec<u8> {
        let id = self.dice.below(20);
        let text = match self.dice.below(12) {
            0..3 => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"2025-06-18"}}}}"#
            ),
            3 => r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
            4..6 => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#),
            6 => format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":"x"}}}}"#),
            7 => format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#),
            8 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#),
            9 => format!(r#"[{{"jsonrpc":"2.0","id":{id},"method":"ping"}},7,null]"#),
            10 => "[".repeat(usize::try_from(self.dice.below(5000)).unwrap()),
            _ => return self.noise(),
        };
        self.bitten(format!("{text}\n").into_bytes())
    }

    fn body(&mut self) -> Vec<u8> {
        let id = self.dice.below(20);
        let answer =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-06-18","capabilities":{{}}}}}}"#);
        let text = match self.dice.below(10) {
            0..3 => answer,
            3..6 => format!("id: {id}\nretry: {}\ndata: {answer}\n\n", self.number()),
            6 => format!("event: endpoint\ndata: /messages?s={id}\n\n"),
            7 => format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"sampling/createMessage\"}}\r\n\r\n"),
            8 => format!("data: {{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":{id}}}}}\r\r"),
            _ => return self.noise(),
        };
        self.bitten(text.into_bytes())
    }

    fn asked(&mut self) -> Asked {
        const METHODS: [&str; 6] = ["POST", "POST", "GET", "DELETE", "PATCH", "\u{1f980}"];
        let mut headers: Vec<_> = (0..self.dice.below(4)).map(|_| self.header()).collect();
        headers.push(("content-type".to_owned(), b"application/json".to_vec()));
        if self.dice.one_in(2) {
            headers.push(("mcp-session-id".to_owned(), SESSION.into()));
        }
        if self.dice.one_in(4) {
            let epoch = self.dice.next();
            let id = format!("{:08x}-{}-{}-WzFd", epoch >> 32, self.dice.below(9), self.dice.below(9));
            headers.push(("last-event-id".to_owned(), id.into_bytes()));
        }
        Asked { exchange: self.id(), method: self.dice.one_of(&METHODS).to_owned(), headers, body: self.line() }
    }

    fn head(&mut self) -> Head {
        const STATUSES: [u16; 12] = [200, 202, 204, 301, 307, 400, 401, 404, 405, 429, 500, 503];
        let status = match self.dice.below(10) {
            0 => u16::try_from(self.dice.below(1 << 16)).unwrap(),
            1..6 => 200,
            _ => self.dice.one_of(&STATUSES),
        };
        let count = self.dice.below(5);
        let headers = (0..count).map(|_| self.header()).collect();
        Head { call: self.id(), status, headers }
    }

    fn header(&mut self) -> (String, Vec<u8>) {
        const HEADERS: [(&str, &str); 12] = [
            ("content-type", "text/event-stream"),
            ("Content-Type", "application/json; charset=utf-8"),
            ("content-type", "text/html"),
            ("mcp-session-id", "s"),
            ("mcp-session-id", "\u{e9}\n"),
            ("location", "http://h:1/else"),
            ("location", "//["),
            ("retry-after", "99999999999999999999"),
            ("set-cookie", "a=b; path=/; max-age=-1"),
            ("", "empty"),
            ("bad name\r\n", "x"),
            ("\u{1f980}", ""),
        ];
        let (name, value) = self.dice.one_of(&HEADERS);
        (name.to_owned(), if self.dice.one_in(10) { self.noise() } else { value.into() })
    }

    fn error(&mut self) -> CallError {
        use CallError as E;
        self.dice.one_of(&[E::Refused, E::Unresolved, E::ConnectTimeout, E::Tls, E::Denied, E::Reset, E::Protocol])
    }

    fn words(&mut self) -> String {
        String::from_utf8_lossy(&self.noise()).into_owned()
    }

    /// Bytes that mean nothing; seldom many.
    fn noise(&mut self) -> Vec<u8> {
        let most = if self.dice.one_in(20) { 200_000 } else { 200 };
        let count = self.dice.below(most);
        (0..count).map(|_| self.dice.next().to_le_bytes()[0]).collect()
    }

    /// Mostly the same; sometimes cut off, or with a wrong byte.
    fn bitten(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        let at = usize::try_from(self.dice.below(bytes.len() as u64)).unwrap();
        match self.dice.below(10) {
            0 => bytes.truncate(at),
            1 => bytes[at] = self.dice.next().to_le_bytes()[0],
            _ => {}
        }
        bytes
    }
}

/// A machine with settings of all sizes.
fn create(instance: &mut Instance, dice: &mut Dice) -> Proxy {
    let mut time = || match dice.below(4) {
        0 => 0,
        1 => u64::MAX,
        _ => dice.below(60_000),
    };
    let config = Config {
        first_byte_timeout: Some(time()),
        endpoint_timeout: time(),
        request_timeout: Some(time()),
        total_timeout: Some(time()),
        drain_timeout: time(),
        keep_alive: KeepAlive::Every(time()),
        ..instance.defaults("http://h/mcp").unwrap().unwrap()
    };
    let http = HttpTransport {
        session: SESSION.to_owned(),
        most_open: 8,
        queue_bytes: 1000,
        replay_events: 16,
        replay_bytes: 10_000,
        hold: time(),
        heartbeat: time(),
        patience: time(),
        recovers: time() > 30_000,
        challenges: time() > 30_000,
        states: String::new(),
        resumed: None,
    };
    let config = Config {
        http: dice.one_in(2).then_some(http),
        transport: dice.one_of(&[Transport::Auto, Transport::StreamableHttp, Transport::Sse]),
        retries: dice.one_of(&[0, 3, u32::MAX]),
        max_message: dice.one_of(&[0, 1, 1000, LARGEST]),
        notes: dice.one_in(2),
        quirks: if dice.one_in(4) { Quirks::empty() } else { config.quirks },
        ..if dice.one_in(2) { config } else { instance.defaults("http://h/mcp").unwrap().unwrap() }
    };
    let (seed, now) = (dice.next(), if dice.one_in(4) { dice.next() } else { 0 });
    instance.create(&config, seed, now).unwrap().unwrap()
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }
}

fn engine() -> Engine {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    Engine::load(&root.join("dist/mcp-engine.wasm")).unwrap()
}
