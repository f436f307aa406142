//! `subscriptions/listen` (2026-07-28, "subscriptions"): which notifications a client wants,
//! and the tag that says which subscription a notification belongs to. Streams and their
//! ends do not belong here.

use super::edit;
use crate::wire::message::Id;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The key of `_meta` with the id of the `subscriptions/listen`.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// How many resources one subscription may name.
const MOST_RESOURCES: usize = 1000;

/// The notifications that a client asks for, or that a server has agreed to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) lists: BTreeSet<List>,
    /// The URIs of the resources whose updates the client wants.
    pub(crate) resources: BTreeSet<String>,
}

/// A list whose changes a server can announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
}

const LISTS: [List; 3] = [List::Tools, List::Prompts, List::Resources];

impl List {
    /// The capability that has a `listChanged`.
    fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    fn flag(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
            Self::Resources => "resourcesListChanged",
        }
    }

    pub(crate) fn notification(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

impl Filter {
    /// Reads the params of a `subscriptions/listen`, or of its acknowledgement. `None` if
    /// they are malformed, or name too many resources.
    pub(crate) fn read(params: &str) -> Option<Self> {
        let [notifications] = edit::get(params, ["notifications"]);
        let notifications = notifications.filter(|notifications| edit::is_object(notifications))?;
        let flags = edit::get(notifications, LISTS.map(List::flag));
        let lists = LISTS.into_iter().zip(flags).filter(|(_, flag)| *flag == Some("true")).map(|(list, _)| list);
        let [resources] = edit::get(notifications, ["resourceSubscriptions"]);
        let resources: BTreeSet<String> = serde_json::from_str(resources.unwrap_or("[]")).ok()?;
        (resources.len() <= MOST_RESOURCES).then(|| Self { lists: lists.collect(), resources })
    }

    /// All lists whose changes a server announces, by its capabilities.
    pub(crate) fn announced(capabilities: &str) -> Self {
        let announces = |list: &List| {
            let [member] = edit::get(capabilities, [list.capability()]);
            edit::get(member.unwrap_or_default(), ["listChanged"]) == [Some("true")]
        };
        Self { lists: LISTS.into_iter().filter(announces).collect(), resources: BTreeSet::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lists.is_empty() && self.resources.is_empty()
    }

    /// The params of a `subscriptions/listen`.
    pub(crate) fn to_params(&self) -> String {
        let resources: Vec<String> = self.resources.iter().map(|uri| edit::quote(uri)).collect();
        let resources = format!("[{}]", resources.join(","));
        let lists = self.lists.iter().map(|list| (list.flag(), "true"));
        let resources = (!self.resources.is_empty()).then_some(("resourceSubscriptions", &*resources));
        edit::object([("notifications", &*edit::object(lists.chain(resources)))])
    }

    /// The params of the acknowledgement for the `subscriptions/listen` with this id.
    pub(crate) fn to_acknowledgement(&self, id: &Id) -> String {
        tag(&self.to_params(), id)
    }

    /// Whether a notification of the server is one of these. An update may name a part of a
    /// subscribed resource.
    pub(crate) fn admits(&self, method: &str, params: &str) -> bool {
        if method != "notifications/resources/updated" {
            return self.lists.iter().any(|list| list.notification() == method);
        }
        let [uri] = edit::get(params, ["uri"]);
        let uri = uri.and_then(edit::string);
        uri.is_some_and(|uri| self.resources.iter().any(|resource| is_part(&uri, resource)))
    }
}

/// Whether a URI names a resource or something below it.
fn is_part(uri: &str, resource: &str) -> bool {
    let ends = |rest: &str| rest.is_empty() || resource.ends_with('/') || rest.starts_with(['/', '?', '#']);
    uri.strip_prefix(resource).is_some_and(ends)
}

/// The id of the subscription that a notification belongs to.
pub(crate) fn subscription(params: &str) -> Option<Id> {
    let [meta] = edit::get(params, [edit::META]);
    let [id] = edit::get(meta?, [SUBSCRIPTION_ID]);
    Id::parse(id?)
}

/// The params of a notification that belongs to a subscription.
pub(crate) fn tag(params: &str, id: &Id) -> String {
    edit::with_meta(params, &[], &[(SUBSCRIPTION_ID, id.text())])
}

/// The params of a notification for a legacy client. `None` if nothing is left of them.
pub(crate) fn untag(params: &str) -> Option<Cow<'_, str>> {
    edit::unless_emptied(edit::without_meta(params, &[], &[SUBSCRIPTION_ID]))
}

/// The result with which a server ends a subscription.
pub(crate) fn ended(id: &Id) -> String {
    tag(r#"{"resultType":"complete"}"#, id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(lists: &[List], resources: &[&str]) -> Filter {
        Filter {
            lists: lists.iter().copied().collect(),
            resources: resources.iter().map(|uri| (*uri).to_owned()).collect(),
        }
    }

    #[test]
    fn filters_are_written_and_read() {
        use List::{Prompts, Resources, Tools};
        let cases = [
            (filter(&[], &[]), r#"{"notifications":{}}"#),
            (filter(&[Tools], &[]), r#"{"notifications":{"toolsListChanged":true}}"#),
            (
                filter(&[Resources, Prompts], &["b\"", "a"]),
                r#"{"notifications":{"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a","b\""]}}"#,
            ),
        ];
        for (filter, params) in cases {
            assert_eq!((filter.to_params(), Filter::read(params)), (params.to_owned(), Some(filter)));
        }
        let cases = [
            (r#"{"notifications":{"toolsListChanged":false,"promptsListChanged":1,"x":{}}}"#, Some(filter(&[], &[]))),
            (r#"{"notifications":{"resourceSubscriptions":[1]}}"#, None),
            (r#"{"notifications":{"resourceSubscriptions":"a"}}"#, None),
            (r#"{"notifications":[]}"#, None),
            ("{}", None),
            ("", None),
        ];
        for (params, want) in cases {
            assert_eq!(Filter::read(params), want, "{params}");
        }
        let uris = |count: usize| {
            filter(
                &[],
                &(0..count).map(|at| at.to_string()).collect::<Vec<_>>().iter().map(|uri| &**uri).collect::<Vec<_>>(),
            )
        };
        assert!(Filter::read(&uris(1000).to_params()).is_some() && Filter::read(&uris(1001).to_params()).is_none());
    }

    #[test]
    fn announced_lists_are_found_in_the_capabilities() {
        let capabilities = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{}}"#;
        assert_eq!(Filter::announced(capabilities), filter(&[List::Tools], &[]));
        assert!(Filter::announced("").is_empty());
    }

    #[test]
    fn only_wanted_notifications_are_admitted() {
        let wanted = filter(&[List::Tools], &["file:///a", "db://x/"]);
        let cases = [
            ("notifications/tools/list_changed", "", true),
            ("notifications/prompts/list_changed", "", false),
            ("notifications/resources/list_changed", "", false),
            ("notifications/message", "", false),
            ("notifications/progress", "{}", false),
            ("notifications/resources/updated", r#"{"uri":"file:///a"}"#, true),
            ("notifications/resources/updated", r#"{"uri":"file:\/\/\/a\/b"}"#, true),
            ("notifications/resources/updated", r#"{"uri":"file:///a#x"}"#, true),
            ("notifications/resources/updated", r#"{"uri":"db://x/y"}"#, true),
            ("notifications/resources/updated", r#"{"uri":"file:///ab"}"#, false),
            ("notifications/resources/updated", r#"{"uri":7}"#, false),
            ("notifications/resources/updated", "", false),
        ];
        for (method, params, want) in cases {
            assert_eq!(wanted.admits(method, params), want, "{method} {params}");
        }
    }

    #[test]
    fn notifications_are_tagged_with_the_id_as_it_was_spelt() {
        let cases = [
            ("\"listen:1\"", "", r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen:1"}}"#, None),
            (
                "0",
                r#"{"uri":"u","_meta":{"t":1.0}}"#,
                r#"{"uri":"u","_meta":{"t":1.0,"io.modelcontextprotocol/subscriptionId":0}}"#,
                Some(r#"{"uri":"u","_meta":{"t":1.0}}"#),
            ),
        ];
        for (id, params, tagged, untagged) in cases {
            let id = Id::parse(id).unwrap();
            assert_eq!((tag(params, &id), subscription(tagged)), (tagged.to_owned(), Some(id)));
            assert_eq!(untag(tagged).as_deref(), untagged);
        }
        assert_eq!((untag("").as_deref(), subscription("{}")), (Some(""), None));
    }

    #[test]
    fn a_subscription_is_acknowledged_and_ended_under_its_id() {
        let id = Id::parse("\"l\"").unwrap();
        let acknowledged = filter(&[List::Tools], &[]).to_acknowledgement(&id);
        let want =
            r#"{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}"#;
        assert_eq!(acknowledged, want);
        assert_eq!(ended(&id), r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}"#);
    }
}
