//! Known faults of real peers that the proxy tolerates. Each has a name and a reason, and
//! the user can switch it off. The code that applies a tolerance lives in the module
//! concerned.

/// The tolerances; all are on by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
pub struct Quirks {
    /// Servers acknowledge a notification with 200, 204 or a body instead of 202.
    pub any_success: bool,
    /// Servers refuse a request with an error whose id is null.
    pub null_id: bool,
    /// Clients send blank lines and CRLF.
    pub blank_lines: bool,
    /// Clients begin with a byte order mark.
    pub byte_order_mark: bool,
    /// Servers print their JSON on several `data:` lines.
    pub pretty_json: bool,
    /// Clients split lines at U+2028 and U+2029, which JSON may contain.
    pub line_separators: bool,
    /// Servers answer requests that were cancelled or timed out, and clients fail on such
    /// answers.
    pub late_answers: bool,
    /// Load balancers want their cookie back to find the session.
    pub cookies: bool,
    /// Servers report a lost session with statuses other than 404.
    pub session_gone: bool,
    /// Gateways strip the beginning of the path from an HTTP+SSE endpoint.
    pub stripped_prefix: bool,
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            any_success: true,
            null_id: true,
            blank_lines: true,
            byte_order_mark: true,
            pretty_json: true,
            line_separators: true,
            late_answers: true,
            cookies: true,
            session_gone: true,
            stripped_prefix: true,
        }
    }
}
