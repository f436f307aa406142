//! What a process takes at every tenth of the way, and the verdict on its memory.
//! The verdict compares RSS, or live memory where the runtime can tell it.
use super::inspector::Live;
use super::server::Server;
use super::Task;
use crate::procs::{self, Usage};
use std::time::Instant;

/// Memory at the end, in parts of that at a tenth of the way.
pub const MOST: f64 = 1.1;
/// Live memory may always grow by this much: a small heap varies by more than a tenth.
const SLACK_KB: u64 = 1024;
const HEAD: &str = "| {}s | live MB (wasm) | RSS MB | peak MB | threads | files | CPU µs | per second | harness MB |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

struct Row {
    done: u64,
    usage: Usage,
    cpu_us: f64,
    per_second: f64,
    harness_kb: u64,
    live: Option<Live>,
}

/// Readings of one process tree, and beside it of the harness itself.
pub struct Gauge {
    sid: i32,
    server: i32,
    rows: Vec<Row>,
    cpu_us: u64,
    at: Instant,
}

impl Gauge {
    pub fn start(task: &Task, sid: i32, server: &Server) -> Gauge {
        println!("{}", HEAD.replace("{}", task.unit));
        Gauge { sid, server: server.sid(), rows: vec![], cpu_us: procs::usage(sid).cpu_us, at: Instant::now() }
    }

    /// Takes a reading once `done` units are done.
    pub fn read(&mut self, done: u64) {
        self.add(done, None);
    }

    /// The same, with what the runtime says is live.
    pub fn read_live(&mut self, done: u64, live: Live) {
        self.add(done, Some(live));
    }

    fn add(&mut self, done: u64, live: Option<Live>) {
        let usage = procs::usage(self.sid);
        let before = self.rows.last().map_or(0, |row| row.done);
        let units = (done - before).max(1) as f64;
        let own = std::process::id() as i32;
        let row = Row {
            done,
            usage,
            cpu_us: usage.cpu_us.saturating_sub(self.cpu_us) as f64 / units,
            per_second: units / self.at.elapsed().as_secs_f64(),
            harness_kb: procs::rss_kb(own) + procs::rss_kb(self.server),
            live,
        };
        println!("{}", row.line());
        (self.cpu_us, self.at) = (usage.cpu_us, Instant::now());
        self.rows.push(row);
    }

    pub fn table(&self, unit: &str) -> String {
        let rows: Vec<String> = self.rows.iter().map(Row::line).collect();
        format!("{}\n{}\n", HEAD.replace("{}", unit), rows.join("\n"))
    }

    /// Whether memory has stayed the same, in words.
    pub fn verdict(&self) -> Result<String, String> {
        let (Some(first), Some(last)) = (self.rows.first(), self.rows.get(9)) else {
            return Err(format!("memory: {} of 10 readings", self.rows.len()));
        };
        let (what, then, now, slack, limit) = match (first.live, last.live) {
            (Some(then), Some(now)) => ("live memory", then.kb(), now.kb(), SLACK_KB, format!("{MOST} ×, or 1 MB more")),
            _ => ("memory", first.usage.rss_kb, last.usage.rss_kb, 0, format!("{MOST} ×")),
        };
        let ratio = now as f64 / then.max(1) as f64;
        let words = format!(
            "{what} at the end {:.1} MB, {ratio:.2} × the {:.1} MB at a tenth of the way (at most {limit})",
            mb(now),
            mb(then)
        );
        let flat = ratio <= MOST || now <= then + slack;
        if then > 0 && now > 0 && flat { Ok(words) } else { Err(words) }
    }
}

impl Row {
    fn line(&self) -> String {
        let Usage { rss_kb, peak_kb, threads, files, .. } = self.usage;
        let live = self.live.map_or("–".to_owned(), |live| format!("{:.1} ({:.1})", mb(live.kb()), mb(live.wasm / 1024)));
        format!(
            "| {} | {live} | {:.1} | {:.1} | {threads} | {files} | {:.1} | {:.0} | {:.1} |",
            grouped(self.done),
            mb(rss_kb),
            mb(peak_kb),
            self.cpu_us,
            self.per_second,
            mb(self.harness_kb)
        )
    }
}

pub fn mb(kb: u64) -> f64 {
    kb as f64 / 1024.0
}

/// A number as people read it: 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge(readings: &[u64]) -> Gauge {
        let row = |rss_kb: &u64| Row {
            done: 1,
            usage: Usage { rss_kb: *rss_kb, ..Usage::default() },
            cpu_us: 0.0,
            per_second: 0.0,
            harness_kb: 0,
            live: None,
        };
        Gauge { sid: 0, server: 0, rows: readings.iter().map(row).collect(), cpu_us: 0, at: Instant::now() }
    }

    #[test]
    fn a_tenth_more_is_flat_and_more_is_not() {
        let first = [1000, 1500, 1200, 1200, 1200, 1200, 1200, 1200, 1200];
        assert!(gauge(&[&first[..], &[1100]].concat()).verdict().is_ok());
        assert!(gauge(&[&first[..], &[1101]].concat()).verdict().is_err());
        assert!(gauge(&first).verdict().is_err(), "a soak that broke off");
        assert!(gauge(&[&first[..], &[0]].concat()).verdict().is_err(), "a process that is gone");
    }

    #[test]
    fn live_memory_counts_before_rss_and_may_grow_by_a_megabyte() {
        let mut gauge = gauge(&[1000; 10]);
        let mut verdict = |live_kb: [u64; 2]| {
            gauge.rows[0].live = Some(Live { heap: live_kb[0] * 1024, wasm: 0 });
            gauge.rows[9].live = Some(Live { heap: 0, wasm: live_kb[1] * 1024 });
            gauge.verdict()
        };
        assert!(verdict([2000, 3024]).is_ok());
        assert!(verdict([2000, 3025]).is_err());
        assert!(verdict([20_000, 22_000]).is_ok());
        assert!(verdict([20_000, 22_001]).is_err());
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1000, 10_000_000].map(grouped), ["0", "999", "1,000", "10,000,000"]);
    }
}
