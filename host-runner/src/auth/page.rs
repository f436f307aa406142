//! The page that a browser shows when a login has ended. It loads nothing and runs
//! nothing.

const TEMPLATE: &str = include_str!("page.html");

/// The login succeeded, for the server of this name.
pub(crate) fn done(server: &str) -> String {
    filled("ok", "You are logged in", &format!("mcp-proxy can now use {server}. You can close this tab."))
}

/// The login failed.
pub(crate) fn failed(cause: &str) -> String {
    filled("failed", "The login did not work", cause)
}

fn filled(kind: &str, title: &str, text: &str) -> String {
    TEMPLATE.replace("{kind}", kind).replace("{title}", &escaped(title)).replace("{text}", &escaped(text))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_cannot_write_into_the_page() {
        let page = failed("<script>alert('x')</script> {title}");
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"), "{page}");
        assert!(!page.contains("<script"), "{page}");
    }
}
