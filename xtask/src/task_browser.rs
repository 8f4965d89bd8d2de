//! `browser`: opens the pages of `sandbox report` in Chromium.
#![expect(clippy::indexing_slicing, reason = "what a JSON value does not have is null")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::browser::{Browser, HOSTILE, LARGE, Runs, SINCE, Tab};
use crate::cargo;
use crate::npm;
use crate::process::{self, command};
use crate::report::{say, step};
use crate::workspace;

#[derive(Args)]
pub(crate) struct BrowserArgs {
    /// Whether to use the programs that tests have built.
    #[arg(skip)]
    is_test: bool,
}

impl BrowserArgs {
    /// Without measurements.
    pub(crate) fn for_tests() -> Self {
        Self { is_test: true }
    }
}

/// The height of a picture.
const PICTURE: u32 = 4_000;

const AXE: &str = "axe-core@4.14.1";
/// The number of texts that paper does not show in full.
const UNPRINTED: &str = "[...document.querySelectorAll('pre')].filter((text) => text.scrollHeight > text.clientHeight + 1 \
                         || !text.checkVisibility({ contentVisibilityAuto: true })).length";
const CHECK: &str = include_str!("browser/check.js");

/// The beginning of a hostile text, of a request, a tool call, its result, an answer, and changes.
const SHOWN: [&str; 6] = [
    "<code>&lt;/pre&gt;",
    " https://allowed.example/&lt;",
    "<summary>Tool call: &lt;/pre&gt;",
    "aria-label=\"Result of the tool\" tabindex=\"0\">&lt;/pre&gt;",
    "aria-label=\"Answer\" tabindex=\"0\">&lt;/pre&gt;",
    "A  package.json",
];

/// The content security policy of each page up to its value.
const POLICY: &str = "http-equiv=\"Content-Security-Policy\" content=";

/// Fails if hostile text on a page is not inert, or if a page is not accessible.
pub(crate) fn run(args: &BrowserArgs) -> Result<()> {
    let sandbox =
        if args.is_test { cargo::program_for_tests("sandbox") } else { cargo::program("sandbox", &[]) }?;
    let axe = fs::read_to_string(npm::unpacked(AXE, "axe-core")?.join("axe.min.js"))?;
    let folder = workspace::target().join("browser");
    let lock = File::create(folder.with_extension("lock"))?;
    lock.lock().context("failed to wait for another check of reports")?;
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("failed to empty {}", folder.display()))?;
    }
    let runs = Runs::write(&folder)?;
    let browser = Browser::start(&folder.join("profile"))?;
    let mut checks = Checks { browser, axe, folder };

    for (name, args, shown) in [("run", HOSTILE.as_slice(), SHOWN.as_slice()), ("since", &SINCE, &SHOWN[..2])]
    {
        let page = runs.page(&sandbox, args, &checks.folder.join(format!("{name}.html")))?;
        let text = fs::read_to_string(&page)?;
        if let Some(part) = shown.iter().find(|part| !text.contains(*part)) {
            bail!("{} lacks `{part}`: the command did not read the runs of this test", page.display());
        }
        for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)] {
            let problems = checks.problems(&page, &format!("{name}-{scheme}-{width}"), scheme, width)?;
            if !problems.is_empty() {
                bail!(
                    "{} is wrong in {scheme} colors and {width} pixels wide:\n{}",
                    page.display(),
                    problems.join("\n")
                );
            }
        }
        checks.controls(name, &page)?;
    }
    say(format!("screenshots are in {}", checks.folder.display()));
    if args.is_test { Ok(()) } else { checks.measure(&runs, &sandbox) }
}

struct Checks {
    browser: Browser,
    axe: String,
    folder: PathBuf,
}

impl Checks {
    /// The problems of a page; takes a picture, and prints it.
    fn problems(&mut self, page: &Path, name: &str, scheme: &str, width: u32) -> Result<Vec<String>> {
        let mut tab = self.browser.tab()?;
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
        tab.call("Emulation.setDeviceMetricsOverride", metrics)?;
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        tab.call("Emulation.setEmulatedMedia", scheme.clone())?;
        tab.open(page)?;
        tab.evaluate(&format!("{}; 0", self.axe))?;
        tab.call("Emulation.setEmulatedMedia", json!({"media": "print"}))?;
        let unprinted = tab.evaluate(UNPRINTED)?;
        tab.call("Emulation.setEmulatedMedia", scheme)?;
        let found = tab.evaluate(CHECK)?;
        let mut problems: Vec<String> = found["problems"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        if unprinted != 0 {
            problems.push(format!("print: {unprinted} texts are cut or absent"));
        }
        for _ in 0..found["stops"].as_u64().context("no number of stops")? {
            let key = json!({"type": "keyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9});
            tab.call("Input.dispatchKeyEvent", key)?;
        }
        let missed = tab.evaluate("[...window.missed].map((element) => element.outerHTML.slice(0, 200))")?;
        if missed != json!([]) {
            problems.push(format!("keyboard: Tab does not reach {missed}"));
        }
        problems.extend(tab.events.iter().filter_map(|event| problem(event, page)));
        let clip = json!({"x": 0, "y": 0, "width": width, "height": PICTURE, "scale": 1});
        let picture = json!({"captureBeyondViewport": true, "clip": clip});
        save(&self.folder.join(format!("{name}.png")), &mut tab, "Page.captureScreenshot", picture)?;
        save(&self.folder.join(format!("{name}.pdf")), &mut tab, "Page.printToPDF", json!({}))?;
        Ok(problems)
    }

    /// Fails if the checks do not find what is wrong with weakened pages.
    fn controls(&mut self, name: &str, page: &Path) -> Result<()> {
        let text = fs::read_to_string(page)?;
        let unescaped = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
        let unescaped = unescaped.iter().fold(text.clone(), |text, (from, to)| text.replace(from, to));
        let unprotected = unescaped.replace(POLICY, "name=no content=");
        for (weakened, text, expected) in [
            ("markup", unescaped, ["element", "console", "axe"].as_slice()),
            ("script", unprotected, &["script", "dialog", "request"]),
            ("keyboard", text.replace("tabindex=\"0\"", ""), &["keyboard", "axe"]),
        ] {
            let page = self.folder.join(format!("{name}-weakened-{weakened}.html"));
            fs::write(&page, text)?;
            let found = self.problems(&page, &format!("{name}-weakened-{weakened}"), "light", 360)?;
            let lacks = |kind: &&&str| !found.iter().any(|problem| problem.starts_with(**kind));
            if let Some(kind) = expected.iter().find(lacks) {
                bail!("the control {}: no {kind} among\n{}", page.display(), found.join("\n"));
            }
        }
        Ok(())
    }

    /// Prints how long a report of 100,000 requests takes.
    fn measure(&mut self, runs: &Runs, sandbox: &Path) -> Result<()> {
        let page = self.folder.join("large.html");
        runs.add_large()?;
        step("`sandbox report` on 100,000 requests", || runs.page(sandbox, &LARGE, &page))?;
        let mut tab = self.browser.tab()?;
        let begin = Instant::now();
        tab.open(&page)?;
        // Two frames are on the screen, and the page answers.
        tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")?;
        let shown = begin.elapsed();
        let first =
            tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")?;
        say(format!(
            "a report of 100,000 requests, {} KiB: first contents after {:.0} ms, usable after {} ms",
            fs::metadata(&page)?.len() >> 10,
            first.as_f64().unwrap_or_default(),
            shown.as_millis()
        ));
        Ok(())
    }
}

/// What is wrong if this happens on `page`.
fn problem(event: &Value, page: &Path) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Page.javascriptDialogOpening" => Some(format!("dialog: {}", params["message"])),
        "Network.requestWillBeSent" => {
            let url = params["request"]["url"].as_str()?;
            // The rest of the path may be encoded.
            let name = page.file_name()?.to_str()?;
            let is_page = url.starts_with("file:///") && url.ends_with(&format!("/browser/{name}"));
            (!is_page).then(|| format!("request: {url}"))
        }
        "Log.entryAdded" => Some(format!("console: {}", params["entry"]["text"])),
        "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" => Some(format!("console: {params}")),
        _ => None,
    }
}

/// Saves the picture or the document that `method` returns.
fn save(file: &Path, tab: &mut Tab<'_>, method: &str, params: Value) -> Result<()> {
    let result = tab.call(method, params)?;
    fs::write(file, result["data"].as_str().with_context(|| format!("{method} returned no data"))?)?;
    let decode = "base64 --decode \"$0\" >\"$0.decoded\" && mv \"$0.decoded\" \"$0\"";
    process::run_quietly(command("sh", ["-c", decode]).arg(file))
}
