//! The proxy's questions: each is passed to the caller's callback, and its answer is sent back.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use allowlist::{LeftOut, Request, Rule};
use futures_util::FutureExt as _;
use sandbox_proxy_protocol::{Event, OpenRequest, Record, Verdict};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::running::ProxyControl;
use crate::spec::{Answer, Asking, Question};
use sandbox_network_log::url_text;

/// The maximum of concurrent callbacks, including those being dropped; the proxy asks half as many.
const AT_ONCE: usize = 32;
/// The maximum of questions in a minute: more than a genuine proxy asks, which has its own limit.
const PER_MINUTE: usize = 64;

/// Passes the questions in `records` to `asking`, until they end. A callback is dropped when its
/// question is over.
pub(super) async fn serve(
    mut records: mpsc::UnboundedReceiver<Record>,
    control: ProxyControl,
    asking: Asking,
) {
    let mut running: JoinSet<u64> = JoinSet::new();
    // A compromised proxy may send anything: an answer never applies to another question than the
    // one that was shown.
    let mut last = 0;
    let mut recent: Vec<Instant> = Vec::new();
    // Dropping a value ends the callback, but not the sending of its answer: its confirmation comes
    // after the record of that answer.
    let mut open: HashMap<u64, oneshot::Sender<()>> = HashMap::new();
    while let Some(record) = records.recv().await {
        while let Some(ended) = running.try_join_next() {
            if let Ok(question) = ended {
                open.remove(&question);
            }
        }
        match record.event {
            Event::Asked { question, request } if question > last => {
                last = question;
                let (is_open, over) = oneshot::channel();
                let answering =
                    answer(question, request, record.at_ms, control.clone(), asking.clone(), over);
                recent.retain(|at| at.elapsed() < Duration::from_mins(1));
                if running.len() < AT_ONCE && recent.len() < PER_MINUTE {
                    recent.push(Instant::now());
                    open.insert(question, is_open);
                    running.spawn(answering.map(move |()| question));
                }
            }
            Event::Answered { question, .. } => {
                open.remove(&question);
            }
            _ => {}
        }
    }
}

async fn answer(
    id: u64,
    request: OpenRequest,
    at_ms: u64,
    control: ProxyControl,
    asking: Asking,
    over: oneshot::Receiver<()>,
) {
    let asked = UNIX_EPOCH.checked_add(Duration::from_millis(at_ms)).unwrap_or(UNIX_EPOCH);
    // The time came from a container: no callback takes longer than it should.
    let asked = asked.min(SystemTime::now());
    let until = asked.checked_add(asking.time).unwrap_or(asked);
    let answer = match rule(&control, &request) {
        Ok(Some(rule)) => {
            let url = url_text(request.scheme, &request.host, &request.target);
            let question = Question { id, method: request.method, url, rule: rule.clone(), asked, until };
            let answering = AssertUnwindSafe(async { asking.ask(question).await }).catch_unwind();
            let failed = |_| Answer::new(Verdict::No, "a panic of the callback");
            let answer = tokio::select! {
                answer = answering => answer.unwrap_or_else(failed),
                _ = over => return,
            };
            if matches!(answer.verdict, Verdict::Run | Verdict::Always) {
                let added = control.answer_with_rule(id, answer.verdict, answer.by.clone(), rule).await;
                let Err(error) = added else { return };
                tracing::warn!(%error, "failed to add a rule; the request that needs it is refused");
                Answer { verdict: Verdict::No, ..answer }
            } else {
                answer
            }
        }
        // The policy was changed meanwhile, and the proxy needs no answer.
        Ok(None) => return,
        // A genuine proxy does not ask such questions.
        Err(_) => Answer::new(Verdict::No, "sandbox"),
    };
    // A proxy that is gone needs no answer.
    let _ = control.answer(id, answer.verdict, answer.by).await;
}

/// The rule that the policy lacks to allow `request`, validated again: the text came from a
/// container.
fn rule(control: &ProxyControl, request: &OpenRequest) -> Result<Option<Rule>, LeftOut> {
    if !request.is_short() {
        return Err(LeftOut::NeverAllowed);
    }
    let OpenRequest { method, scheme, host, target } = request;
    let request = Request::from_wire(*scheme, host.as_bytes(), method.as_bytes(), target.as_bytes());
    let request = request.map_err(|_| LeftOut::NeverAllowed)?;
    control.policy().missing_rule(&request, false)
}

#[cfg(test)]
mod tests {
    use allowlist::{Allowlist, Scheme};
    use sandbox_proxy_protocol::Command;

    use super::super::ShieldState;
    use super::*;
    use crate::spec::NetworkSandboxConfig;

    fn asked(question: u64, host: &str, target: &str) -> Record {
        let (method, host, target) = ("GET".to_owned(), host.to_owned(), target.to_owned());
        let request = OpenRequest { method, scheme: Scheme::Https, host, target };
        Record { at_ms: 0, event: Event::Asked { question, request } }
    }

    #[tokio::test]
    async fn repeated_and_oversized_questions_of_a_proxy_are_refused() {
        let (seen, mut asking) = mpsc::unbounded_channel();
        let config = NetworkSandboxConfig::new(Allowlist::default()).ask(move |question| {
            let _ = seen.send((question.id, question.url));
            std::future::pending::<Verdict>()
        });
        let (records, of_proxy) = mpsc::unbounded_channel();
        let serving =
            tokio::spawn(serve(of_proxy, ProxyControl::disconnected(), config.asking().unwrap().clone()));
        let answered = Event::Answered { question: 5, verdict: None, by: "client".to_owned() };
        for record in [
            asked(5, "a.example", "/"),
            Record { at_ms: 0, event: answered },
            asked(5, "evil.example", "/"),
            asked(4, "evil.example", "/"),
            asked(6, "evil.example", &format!("/{}", "x".repeat(3000))),
            asked(7, "b.example", "/"),
        ] {
            records.send(record).unwrap();
        }
        let mut last = None;
        while last.as_ref() != Some(&(7, "https://b.example/".to_owned())) {
            last = asking.recv().await;
            let (id, url) = last.as_ref().unwrap();
            assert!(!url.contains("evil"), "{id} {url}");
        }
        serving.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn questions_beyond_those_of_a_minute_are_not_passed_on() {
        let (seen, mut asking) = mpsc::unbounded_channel();
        let config = NetworkSandboxConfig::new(Allowlist::default()).ask(move |question| {
            let _ = seen.send(question.id);
            std::future::ready(Verdict::No)
        });
        let (records, of_proxy) = mpsc::unbounded_channel();
        let control = ProxyControl::disconnected();
        let _serving = tokio::spawn(serve(of_proxy, control, config.asking().unwrap().clone()));
        for id in 1..=64 {
            records.send(asked(id, "a.example", "/")).unwrap();
            assert_eq!(asking.recv().await, Some(id));
        }
        records.send(asked(65, "a.example", "/")).unwrap();
        tokio::time::sleep(Duration::from_mins(1)).await; // tidy: sleep: the clock is paused
        records.send(asked(66, "a.example", "/")).unwrap();
        assert_eq!(asking.recv().await, Some(66));
    }

    #[tokio::test]
    async fn rule_is_kept_though_its_answer_is_reported_before_the_confirmation() {
        let (seen, mut asking) = mpsc::unbounded_channel();
        let config = NetworkSandboxConfig::new(Allowlist::default()).ask(move |question| {
            let _ = seen.send(question.id);
            std::future::ready(Verdict::Run)
        });
        let (control, _orders, mut orders, _shield) = ProxyControl::connected();
        let (records, of_proxy) = mpsc::unbounded_channel();
        let _serving = tokio::spawn(serve(of_proxy, control.clone(), config.asking().unwrap().clone()));
        records.send(asked(1, "a.example", "/")).unwrap();
        let first = orders.recv().await.unwrap();
        let answered = Event::Answered { question: 1, verdict: Some(Verdict::Run), by: "test".to_owned() };
        records.send(Record { at_ms: 0, event: answered }).unwrap();
        records.send(asked(2, "b.example", "/")).unwrap();
        while asking.recv().await != Some(2) {}
        first.confirm(ShieldState::Up);
        let second = orders.recv().await.unwrap();
        let Command::Answer { policy: Some(policy), .. } = &second.command else { panic!("{second:?}") };
        assert_eq!((control.policy().rules().len(), policy.rules().len()), (1, 2));
    }
}
