//! What real peers get wrong, and whether we put up with it. Each is named, has
//! its reason, and can be switched off; where it is applied is the business of
//! the room concerned.

/// The tolerances; all are on by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
pub struct Quirks {
    /// Servers confirm a notification with 200, 204 or a body instead of 202.
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
    /// Servers answer what was cancelled or given up; clients break over that.
    pub late_answers: bool,
    /// Load balancers want their cookie back to find the session.
    pub cookies: bool,
    /// Servers say in other ways than 404 that the session is gone.
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
