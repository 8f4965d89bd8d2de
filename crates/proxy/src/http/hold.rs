//! Holds a request that lacks a rule until the operator has answered or the policy permits it. None
//! of its body is read meanwhile.

use sandbox_proxy_protocol::Verdict;

use super::client::Client;
use super::exchange::Exchange;
use crate::policy::{Admission, Blocked, Unasked, Unruled};

const REFUSED: &str = "the operator was asked, and did not allow it";

/// Waits for the decision on a request that lacks a rule.
pub(super) async fn hold(
    client: &Client,
    mut unruled: Box<Unruled>,
    exchange: &mut Exchange,
) -> Result<Admission, Blocked> {
    let gate = &client.shared.gate;
    let mut changes = gate.changes();
    loop {
        let is_recordable = || exchange.fits(&client.shared.log, false);
        let mut waiting = match client.shared.context.questions.ask(unruled.request(), is_recordable) {
            Ok(waiting) => waiting,
            Err(why) => {
                if why == Unasked::TooMany {
                    client.shared.refused_questions.add();
                }
                return Err(unruled.denial().because(why));
            }
        };
        exchange.asked(waiting.question());
        let verdict = loop {
            tokio::select! {
                biased;
                verdict = waiting.verdict() => break verdict,
                Ok(()) = changes.changed() => match gate.admit(unruled.request().clone()) {
                    Ok(Admission::Unruled(_)) => {}
                    decided => {
                        if waiting.leads() {
                            waiting.settle();
                        }
                        return decided;
                    }
                }
            }
        };
        match verdict {
            Some(Verdict::No) => return Err(unruled.denial().because(REFUSED)),
            Some(Verdict::Once) if waiting.leads() => {
                return gate.admit_once(*unruled, waiting.question()).map(Admission::Permit);
            }
            // The answer was for another request, or there is a rule now.
            Some(Verdict::Once | Verdict::Run | Verdict::Always) | None => {
                match gate.admit(unruled.request().clone())? {
                    // The rule could not be put in force.
                    Admission::Unruled(unruled) if verdict.is_some() && waiting.leads() => {
                        return Err(unruled.denial().because(REFUSED));
                    }
                    Admission::Unruled(again) => unruled = again,
                    admitted => return Ok(admitted),
                }
            }
        }
    }
}
