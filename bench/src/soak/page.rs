//! What is said at the end: a report for each soak, and a page of them in which
//! a new report replaces the old one of that name.
use super::gauge::{grouped, Gauge};
use super::Task;
use std::path::Path;

const TITLE: &str = "# Soak\n\nWritten by `cargo xtask soak --write`; do not edit. Each soak is one long load on one real process; `harness` is driver and mock server together. How to run them: [README.md](README.md#soak).\n";

pub struct Report {
    pub name: &'static str,
    pub passed: bool,
    /// What ran, and the figures.
    text: String,
    verdicts: Vec<String>,
}

impl Report {
    pub fn new(task: &Task, what: &str) -> Report {
        let text = format!("{} {}s: {what}\n", grouped(task.units), task.unit);
        Report { name: task.name, passed: true, text, verdicts: vec![] }
    }

    pub fn failed(name: &'static str, why: &str) -> Report {
        Report { name, passed: true, text: String::new(), verdicts: vec![] }.judge(Err(why.into()))
    }

    pub fn table(mut self, table: &str) -> Report {
        self.text += &format!("\n{table}");
        self
    }

    pub fn say(mut self, what: &str) -> Report {
        self.text += &format!("\n{what}\n");
        self
    }

    pub fn gauge(self, task: &Task, gauge: &Gauge) -> Report {
        self.table(&gauge.table(task.unit)).judge(gauge.verdict())
    }

    pub fn judge(mut self, verdict: Result<String, String>) -> Report {
        self.passed &= verdict.is_ok();
        self.verdicts.push(match verdict {
            Ok(words) => format!("- pass: {words}"),
            Err(words) => format!("- **fail**: {words}"),
        });
        self
    }

    pub fn verdicts(&self) -> String {
        self.verdicts.join("\n")
    }

    fn section(&self) -> String {
        format!("## {}\n\n{}\n{}\n", self.name, self.text, self.verdicts())
    }
}

/// Puts the reports into the page, which may hold others.
pub fn write(page: &Path, reports: &[Report]) -> std::io::Result<()> {
    let old = std::fs::read_to_string(page).unwrap_or_default();
    std::fs::write(page, merge(&old, reports))
}

fn merge(old: &str, reports: &[Report]) -> String {
    let heading = |section: &str| section.lines().next().unwrap_or("").trim().to_owned();
    let mut sections: Vec<String> = old.split("\n## ").skip(1).map(|rest| format!("## {}\n", rest.trim_end())).collect();
    for report in reports {
        let new = report.section();
        match sections.iter_mut().find(|section| heading(section) == heading(&new)) {
            Some(section) => *section = new,
            None => sections.push(new),
        }
    }
    format!("{TITLE}\n{}", sections.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_replaces_the_one_of_its_name_and_no_other() {
        let (one, two) = (Report::failed("one", "first"), Report::failed("two", "second"));
        let page = merge("", &[one, two]);
        assert!(page.starts_with("# Soak"));
        let again = merge(&page, &[Report::failed("one", "third")]);
        assert!(!again.contains("first") && again.contains("third") && again.contains("second"));
        assert_eq!(merge(&again, &[]), again, "nothing else changes");
    }
}
