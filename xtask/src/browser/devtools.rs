//! Chromium, by its `DevTools` protocol over a pipe.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::apt::{self, Needed};
use crate::process::command;

/// A running browser without a network. It ends when this is dropped.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    calls: u64,
}

/// A tab, and the events since it was opened.
pub(crate) struct Tab<'a> {
    browser: &'a mut Browser,
    session: Value,
    pub(crate) events: Vec<Value>,
}

impl Browser {
    /// Starts it with `profile` as its folder. It is killed after 20 minutes, which is many times
    /// the duration of all checks: a browser that hangs becomes an error.
    pub(crate) fn start(profile: &Path) -> Result<Self> {
        apt::ensure(&[
            Needed { program: "chromium", package: "chromium" },
            Needed { program: "unshare", package: "util-linux" },
        ])
        .context("`cargo xtask browser` needs Debian's Chromium")?;
        // Root cannot use Chromium's own sandbox. The pages are ours, and there is no network.
        // Chromium reads commands from descriptor 3 and answers on 4. Regions that scroll must be
        // reachable in browsers that do not make them so themselves.
        let mut chromium = command("timeout", ["--kill-after=9", "1200", "unshare", "--net", "sh", "-c"]);
        chromium.arg(
            "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe \
             --disable-features=KeyboardFocusableScrollers --user-data-dir=\"$0\" 3<&0 4>&1 1>/dev/null 2>&1",
        );
        let mut child = chromium
            .arg(profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start chromium")?;
        let to = child.stdin.take().context("no stdin")?;
        let from = BufReader::new(child.stdout.take().context("no stdout")?);
        Ok(Self { child, to, from, calls: 0 })
    }

    /// Opens an empty tab.
    pub(crate) fn tab(&mut self) -> Result<Tab<'_>> {
        let mut tab = Tab { browser: self, session: Value::Null, events: Vec::new() };
        let target = tab.call("Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        tab.session = tab.call("Target.attachToTarget", attach)?["sessionId"].take();
        for domain in ["Page", "Network", "Log", "Runtime"] {
            tab.call(&format!("{domain}.enable"), json!({}))?;
        }
        tab.call("Page.setLifecycleEventsEnabled", json!({"enabled": true}))?;
        Ok(tab)
    }

    fn send(&mut self, session: &Value, method: &str, params: Value) -> Result<u64> {
        self.calls += 1;
        let mut call = json!({"id": self.calls, "method": method});
        call["params"] = params;
        if !session.is_null() {
            call["sessionId"] = session.clone();
        }
        write!(self.to, "{call}\0").with_context(|| format!("failed to send {method} to chromium"))?;
        Ok(self.calls)
    }

    fn receive(&mut self) -> Result<Value> {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message)?;
        if message.pop().is_none() {
            bail!("chromium ended; try `chromium --headless --no-sandbox --dump-dom about:blank`");
        }
        Ok(serde_json::from_slice(&message)?)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let closed = self.send(&Value::Null, "Browser.close", json!({}));
        drop(closed.map(|_| self.child.wait()));
    }
}

impl Tab<'_> {
    /// Calls a method of the protocol, and returns its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.browser.send(&self.session, method, params)?;
        loop {
            let mut message = self.next()?;
            if message["id"] != id {
                continue;
            }
            if !message["error"].is_null() {
                bail!("{method}: {}", message["error"]);
            }
            return Ok(message["result"].take());
        }
    }

    /// Opens the page `file`, and waits until it is loaded.
    pub(crate) fn open(&mut self, file: &Path) -> Result<()> {
        let url = json!({"url": format!("file://{}", file.display())});
        let loader = self.call("Page.navigate", url)?["loaderId"].take();
        let is_loaded = |event: &Value| {
            event["method"] == "Page.lifecycleEvent"
                && event["params"]["name"] == "load"
                && event["params"]["loaderId"] == loader
        };
        while !self.events.iter().any(is_loaded) {
            self.next()?;
        }
        Ok(())
    }

    /// The value of a script's expression, or that of its promise.
    pub(crate) fn evaluate(&mut self, script: &str) -> Result<Value> {
        let params = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let mut result = self.call("Runtime.evaluate", params)?;
        match &result["exceptionDetails"] {
            Value::Null => Ok(result["result"]["value"].take()),
            thrown => bail!("a script of the check failed: {thrown}"),
        }
    }

    fn next(&mut self) -> Result<Value> {
        let message = self.browser.receive()?;
        let session = &message["sessionId"];
        if message["method"] == "Page.javascriptDialogOpening" {
            // The page waits for it.
            self.browser.send(session, "Page.handleJavaScriptDialog", json!({"accept": true}))?;
        }
        // Tabs that were opened before go on.
        if message["method"].is_string() && *session == self.session {
            self.events.push(message.clone());
        }
        Ok(message)
    }
}
