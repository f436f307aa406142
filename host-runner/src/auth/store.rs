//! Keeps logins between two starts: a small private file for each server, and the secrets
//! in the system's keychain where there is one. Several processes share it: a lock lets one
//! at a time renew or obtain a token, and every change starts from what is in the file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use etcetera::BaseStrategy as _;
use mcp_proxy_options::TokenStore;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::login::Login;

/// Overrides the folder.
const FOLDER: &str = "MCP_PROXY_CONFIG_DIR";
const SERVICE: &str = "mcp-proxy";

/// All logins of this person.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    folder: PathBuf,
    kind: TokenStore,
}

/// The logins for one server.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The URL of the MCP server.
    pub(crate) url: String,
    /// The latest first.
    pub(crate) logins: Vec<Login>,
}

/// The exclusive right to change the logins for one server.
pub(crate) struct Lock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

impl Store {
    pub(crate) fn new(kind: TokenStore, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let given = env(FOLDER).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let folder =
            given.or_else(usual).ok_or("there is no home directory for the tokens: set MCP_PROXY_CONFIG_DIR")?;
        Ok(Self { folder: folder.join("auth"), kind })
    }

    /// Waits for the lock of this server. It ends with the process, whatever happens.
    pub(crate) async fn lock(&self, url: &str) -> Result<Lock, String> {
        let path = self.path(url).with_extension("lock");
        let locked = tokio::task::spawn_blocking(move || {
            private_folder(&path)?;
            let file = private(&mut OpenOptions::new()).create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(Lock(file))
        });
        let locked: io::Result<Lock> = locked.await.map_err(io::Error::other).flatten();
        locked.map_err(|error| format!("the token store {}: {error}", self.folder.display()))
    }

    /// The logins for a server, without the secrets that are in the keychain.
    pub(crate) fn read(&self, url: &str) -> Entry {
        let text = fs::read(self.path(url)).unwrap_or_default();
        let entry: Option<Entry> = serde_json::from_slice(&text).ok();
        entry.filter(|entry| entry.url == url).unwrap_or_else(|| Entry { url: url.to_owned(), logins: Vec::new() })
    }

    /// The latest login for a server, of this client if one is named.
    pub(crate) async fn load(&self, url: &str, client: Option<&str>) -> Option<Login> {
        let entry = self.read(url);
        let login = entry.logins.into_iter().find(|login| client.is_none_or(|client| login.client.id == client))?;
        match login.access.is_empty() {
            true => self.unlocked(url, login).await,
            false => Some(login),
        }
    }

    /// Writes a login, in place of the earlier ones of the same client.
    pub(crate) async fn save(&self, url: &str, login: &Login) -> Result<(), String> {
        let login = self.in_keychain(url, login.clone()).await;
        let mut entry = self.read(url);
        entry
            .logins
            .retain(|other| (&other.server.issuer, &other.client.id) != (&login.server.issuer, &login.client.id));
        entry.logins.insert(0, login);
        self.write(&entry)
    }

    /// Removes a login, unless another process has changed it.
    pub(crate) async fn remove(&self, url: &str, login: &Login) -> Result<(), String> {
        let mut entry = self.read(url);
        let mut gone = None;
        if let Some(at) = entry.logins.iter().position(|other| is_same(other, login)) {
            gone = Some(entry.logins.remove(at));
        }
        match gone {
            None => Ok(()),
            Some(gone) => {
                self.forget_secrets(url, &gone).await;
                self.write(&entry)
            }
        }
    }

    /// Changes a login, unless another process has changed it.
    pub(crate) async fn replace(&self, url: &str, login: &Login, other: Login) -> Result<(), String> {
        match self.read(url).logins.iter().any(|stored| is_same(stored, login)) {
            true => self.save(url, &other).await,
            false => Ok(()),
        }
    }

    /// All servers with a login.
    pub(crate) fn all(&self) -> Vec<Entry> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|file| file.path());
        let entries = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let read = |path: PathBuf| serde_json::from_slice::<Entry>(&fs::read(path).ok()?).ok();
        let mut all: Vec<Entry> = entries.filter_map(read).filter(|entry| !entry.logins.is_empty()).collect();
        all.sort_by(|one, other| one.url.cmp(&other.url));
        all
    }

    fn write(&self, entry: &Entry) -> Result<(), String> {
        let path = self.path(&entry.url);
        let explain = |error: io::Error| format!("the token store {}: {error}", path.display());
        if entry.logins.is_empty() {
            return fs::remove_file(&path).or_else(missing).map_err(explain);
        }
        let text = serde_json::to_vec_pretty(entry).map_err(|error| error.to_string())?;
        write_whole(&path, &text).map_err(explain)
    }

    fn path(&self, url: &str) -> PathBuf {
        let digest: String = Sha256::digest(url).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{digest}.json"))
    }

    /// Moves the secrets into the keychain. If there is none, they stay.
    async fn in_keychain(&self, url: &str, login: Login) -> Login {
        if self.kind == TokenStore::File {
            return login;
        }
        let Ok(text) = serde_json::to_string(&Secrets::of(&login)) else { return login };
        match keychain(url, &login, move |item| item.set_password(&text)).await {
            Some(()) => Secrets::default().put_into(login),
            None => login,
        }
    }

    async fn unlocked(&self, url: &str, login: Login) -> Option<Login> {
        let text = keychain(url, &login, |item| item.get_password()).await?;
        let secrets: Secrets = serde_json::from_str(&text).ok()?;
        Some(secrets.put_into(login)).filter(|login| !login.access.is_empty())
    }

    async fn forget_secrets(&self, url: &str, login: &Login) {
        if login.access.is_empty() {
            keychain(url, login, |item| item.delete_credential()).await;
        }
    }
}

/// What belongs into a keychain.
#[derive(Default, Serialize, Deserialize)]
struct Secrets {
    access: String,
    refresh: Option<String>,
    client: Option<String>,
}

impl Secrets {
    fn of(login: &Login) -> Self {
        let Login { access, refresh, client, .. } = login.clone();
        Self { access, refresh, client: client.secret }
    }

    fn put_into(self, mut login: Login) -> Login {
        let Self { access, refresh, client } = self;
        (login.access, login.refresh, login.client.secret) = (access, refresh, client);
        login
    }
}

/// Does something with an item of the keychain; `None` if there is no keychain, or no item.
async fn keychain<T: Send + 'static>(
    url: &str,
    login: &Login,
    act: impl FnOnce(&keyring::Entry) -> keyring::Result<T> + Send + 'static,
) -> Option<T> {
    let name = format!("{url} ({} at {})", login.client.id, login.server.issuer);
    let done = tokio::task::spawn_blocking(move || act(&keyring::Entry::new(SERVICE, &name)?));
    done.await.ok()?.ok()
}

/// The secrets of one of them may be in the keychain.
fn is_same(one: &Login, other: &Login) -> bool {
    let times = |login: &Login| (login.obtained, login.expires);
    let same =
        (&one.server.issuer, &one.client.id) == (&other.server.issuer, &other.client.id) && times(one) == times(other);
    same && (one.access.is_empty() || other.access.is_empty() || one.access == other.access)
}

/// The platform's folder for settings.
fn usual() -> Option<PathBuf> {
    let base = etcetera::base_strategy::choose_native_strategy().ok()?;
    let folder = if cfg!(target_os = "macos") { base.data_dir() } else { base.config_dir() };
    Some(folder.join("mcp-proxy"))
}

/// Replaces a file so that nobody ever sees half of it.
fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    private_folder(path)?;
    // Readable by its owner only, from the beginning.
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

fn private_folder(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::{super::login::tests::login, *};

    const URL: &str = "https://a.example/mcp";

    fn store(folder: &tempfile::TempDir) -> Store {
        let path = folder.path().to_str().unwrap().to_owned();
        Store::new(TokenStore::File, &|_| Some(path.clone())).unwrap()
    }

    #[tokio::test]
    async fn a_login_is_found_again_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        assert!(store.load(URL, None).await.is_none());
        store.save(URL, &login("one")).await.unwrap();
        store.save(URL, &login("two")).await.unwrap();
        assert_eq!(store.load(URL, None).await.unwrap().access, "two");
        assert_eq!(store.load(URL, Some("id")).await.unwrap().access, "two");
        assert!(store.load(URL, Some("other")).await.is_none());
        assert!(store.load("https://a.example/other", None).await.is_none());
        assert_eq!(store.all().len(), 1);
        store.remove(URL, &login("two")).await.unwrap();
        assert!(store.load(URL, None).await.is_none());
        assert!(store.all().is_empty());
    }

    #[tokio::test]
    async fn what_another_process_has_renewed_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        store.save(URL, &login("theirs")).await.unwrap();
        store.remove(URL, &login("ours")).await.unwrap();
        assert_eq!(store.load(URL, None).await.unwrap().access, "theirs");
    }

    #[tokio::test]
    async fn a_refresh_token_is_taken_from_its_own_login_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        store.save(URL, &login("theirs")).await.unwrap();
        let ours = login("ours");
        store.replace(URL, &ours, ours.without_refresh()).await.unwrap();
        assert!(store.load(URL, None).await.unwrap().refresh.is_some());
        let theirs = login("theirs");
        store.replace(URL, &theirs, theirs.without_refresh()).await.unwrap();
        let left = store.load(URL, None).await.unwrap();
        assert_eq!((&*left.access, left.refresh), ("theirs", None));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn only_the_person_can_read_the_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        store.save(URL, &login("x")).await.unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.path(URL)), mode(&store.folder)), (0o600, 0o700));
    }

    #[tokio::test]
    async fn a_file_that_is_not_ours_is_no_login() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        for text in ["", "{", "[]", r#"{"url":"https://b.example","logins":[]}"#] {
            write_whole(&store.path(URL), text.as_bytes()).unwrap();
            assert!(store.load(URL, None).await.is_none(), "{text}");
        }
    }
}
