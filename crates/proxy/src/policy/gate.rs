//! The gate: the only code that consults the policy, and the only code that creates permits.
//!
//! Invariant: a [`Permit`] contains the very request that was permitted, so nothing else can be
//! forwarded with it.

use std::sync::Arc;

use allowlist::{
    Admitted, Allowlist, BodyCheck, Decision, HostName, Match, Pushes, Request, RuleKind, Step, VendorTool,
};
use tokio::sync::watch;

use super::blocked::Blocked;
use super::live::LivePolicy;

/// Judges requests by the current policy.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    policy: watch::Receiver<LivePolicy>,
    /// Whether the operator is asked if there is no rule.
    asks: bool,
}

/// Proof that the policy permitted this request.
#[derive(Debug)]
pub(crate) struct Permit {
    request: Request,
    /// `None` if only the lowered shield permitted it, or an answer.
    rule: Option<Match>,
    /// The question whose answer permitted it.
    question: Option<u64>,
    method_counts: bool,
    path_counts: bool,
    tokens: TokenReport,
}

/// Where a vendor reports the tokens that a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenReport {
    /// It uses none.
    None,
    /// In its response.
    Response,
    /// In another response.
    Later,
}

/// The decision about a request that is not refused yet.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It may be sent.
    Permit(Permit),
    /// Its body decides.
    Pending(Box<Pending>),
    /// It lacks a rule; the operator may permit it without one.
    Unruled(Box<Unruled>),
}

/// A request that is denied only because it lacks a rule: only an answer or another policy turns it
/// into a permit.
#[derive(Debug)]
pub(crate) struct Unruled {
    request: Request,
    denial: Blocked,
    /// The missing rule, as a policy.
    alone: Allowlist,
}

/// A request whose body decides: only [`Gate::advance`] turns it into a permit.
#[derive(Debug)]
pub(crate) struct Pending {
    request: Request,
    check: BodyCheck,
    /// The policy that the check comes from.
    allowlist: Arc<Allowlist>,
}

/// A request whose body passed the check.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) permit: Permit,
    /// The bytes that are sent in place of the body, if it is replaced.
    pub(crate) body: Option<Vec<u8>>,
    /// Tools of a model's vendor that were removed from that body.
    pub(crate) removed: Vec<VendorTool>,
    /// The pushes that must be proven before the end of the body is sent.
    pub(crate) fast_forwards: Option<Pushes>,
}

impl Gate {
    /// A gate that follows `policy`.
    pub(crate) fn new(policy: watch::Receiver<LivePolicy>) -> Self {
        Self { policy, asks: false }
    }

    /// Sets whether the operator is asked if there is no rule.
    pub(crate) fn asking(self, asks: bool) -> Self {
        Self { asks, ..self }
    }

    /// Permits `request`, by itself or depending on its body or an answer, or returns the denial.
    ///
    /// # Errors
    ///
    /// The policy's denial; during a quarantine, or while the records are not read, a denial that
    /// states that.
    pub(crate) fn admit(&self, request: Request) -> Result<Admission, Blocked> {
        self.judge(request, LivePolicy::is_down, self.asks)
    }

    /// The same for a request to a service of the host, which is not a public host: a lowered
    /// shield does not open it, and the operator is not asked.
    ///
    /// # Errors
    ///
    /// As [`Gate::admit`].
    pub(crate) fn admit_to_service(&self, request: Request) -> Result<Admission, Blocked> {
        self.judge(request, |_| false, false)
    }

    /// Permits exactly this request, because the answer to `question` does.
    ///
    /// # Errors
    ///
    /// If nothing is permitted any more, or a rule of `deny` covers it now.
    pub(crate) fn admit_once(&self, unruled: Unruled, question: u64) -> Result<Permit, Blocked> {
        // A rule of `deny` may be newer than the question.
        let (policy, request) = (self.in_force()?.allowlist, &unruled.request);
        if let Some(denial) = policy.refused_outside(request).or_else(|| policy.denies(request)) {
            return Err(denial.into());
        }
        let permit = Permit::new(unruled.request, None, &unruled.alone);
        // No header may turn it into another request.
        Ok(Permit { question: Some(question), method_counts: true, path_counts: true, ..permit })
    }

    /// A receiver of changes to the policy in force.
    pub(crate) fn changes(&self) -> watch::Receiver<LivePolicy> {
        self.policy.clone()
    }

    fn judge(
        &self,
        request: Request,
        is_open: impl FnOnce(&LivePolicy) -> bool,
        asks: bool,
    ) -> Result<Admission, Blocked> {
        let live = self.in_force()?;
        let allowlist = &live.allowlist;
        match allowlist.decide(&request) {
            Decision::Allow(rule) => Ok(Admission::Permit(Permit::new(request, Some(rule), allowlist))),
            Decision::NeedsBody(check) => {
                let allowlist = Arc::clone(allowlist);
                Ok(Admission::Pending(Box::new(Pending { request, check, allowlist })))
            }
            // The rules alone decide some requests, even while the shield is down.
            Decision::Deny(_) if !allowlist.stays_judged(&request) && is_open(&live) => {
                Ok(Admission::Permit(Permit::new(request, None, allowlist)))
            }
            Decision::Deny(denial) if asks => {
                let unruled = Unruled::new(request, denial.into(), allowlist)?;
                Ok(Admission::Unruled(Box::new(unruled)))
            }
            Decision::Deny(denial) => Err(denial.into()),
        }
    }

    /// Checks the part of a request's body that has arrived; `ended` if that is all of it. The
    /// policy in force now decides, not the one when the body began.
    ///
    /// # Errors
    ///
    /// As [`Gate::admit`], or the denial of the body's content.
    pub(crate) fn advance(
        &self,
        pending: &mut Pending,
        so_far: &[u8],
        ended: bool,
    ) -> Result<Option<Passed>, Blocked> {
        let LivePolicy { allowlist, .. } = self.in_force()?;
        if !Arc::ptr_eq(&allowlist, &pending.allowlist) {
            match allowlist.decide(&pending.request) {
                Decision::Allow(rule) => {
                    let permit = Permit::new(pending.request.clone(), Some(rule), &allowlist);
                    return Ok(Some(Passed { permit, body: None, removed: Vec::new(), fast_forwards: None }));
                }
                Decision::NeedsBody(check) => (pending.check, pending.allowlist) = (check, allowlist),
                Decision::Deny(denial) => return Err(denial.into()),
            }
        }
        Ok(match pending.check.advance(so_far, ended)? {
            Step::More => None,
            Step::Allow(admitted) => {
                let Admitted { rule, body, removed, fast_forwards, .. } = admitted;
                let permit = Permit::new(pending.request.clone(), Some(rule), &pending.allowlist);
                Some(Passed { permit, body, removed, fast_forwards })
            }
        })
    }

    /// The current policy, unless nothing is permitted.
    fn in_force(&self) -> Result<LivePolicy, Blocked> {
        let policy = self.policy.borrow().clone();
        match policy.closed() {
            Some(denial) => Err(denial),
            None => Ok(policy),
        }
    }

    /// The reason why nothing is permitted at all; `None` if something may be.
    pub(crate) fn closed(&self) -> Option<Blocked> {
        self.policy.borrow().closed()
    }

    /// Watches for a quarantine or a silent owner from now on; [`Gate::admit`] refuses later
    /// requests.
    pub(crate) fn watch(&self) -> QuarantineWatch {
        let policy = self.policy.clone();
        let seen = policy.borrow().cuts;
        QuarantineWatch { policy, seen }
    }
}

/// Notices when a quarantine begins or the owner falls silent. One watch covers the whole lifetime
/// of a connection, so that neither begins unnoticed between two of its phases.
#[derive(Debug)]
pub(crate) struct QuarantineWatch {
    policy: watch::Receiver<LivePolicy>,
    /// The number of cuts when the watch was created.
    seen: u64,
}

impl QuarantineWatch {
    /// Returns when the connection is to be cut; at once if that happened between the watch's
    /// creation and the call.
    pub(crate) async fn begun(&mut self) {
        let seen = self.seen;
        // An error means that the policy can no longer change.
        if self.policy.wait_for(|policy| policy.cuts > seen).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Unruled {
    /// The request without a rule; returns the denial if anything but the lack of a rule refuses
    /// it, or if its body would decide.
    fn new(request: Request, denial: Blocked, allowlist: &Allowlist) -> Result<Self, Blocked> {
        // An address does not reveal who answers there.
        let Ok(Some(rule)) = allowlist.missing_rule(&request, false) else {
            return Err(denial);
        };
        let alone = Allowlist::new([rule])
            .with_vendor_tools(allowlist.vendor_tools().clone())
            .within_all(allowlist.outer().to_vec());
        match alone.decide(&request) {
            Decision::Allow(_) => Ok(Self { request, denial, alone }),
            Decision::NeedsBody(_) | Decision::Deny(_) => Err(denial),
        }
    }

    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    /// The denial that applies without an answer.
    pub(crate) fn denial(&self) -> &Blocked {
        &self.denial
    }
}

impl Pending {
    /// The maximum number of bytes of the body that may have to be read before the decision.
    pub(crate) fn limit(&self) -> usize {
        self.check.limit()
    }
}

impl Permit {
    /// A permit without a rule is like one with a rule for the whole host.
    fn new(request: Request, rule: Option<Match>, allowlist: &Allowlist) -> Self {
        let host = request.host();
        let method_counts = allowlist.has_method_rules_for(host);
        // Rules for whole hosts are checked first.
        let by_url = rule.as_ref().is_some_and(|rule| rule.kind == RuleKind::Url);
        let by_path = by_url || allowlist.judges_bodies_of(host) || allowlist.denies_paths_of(host);
        let path_counts = by_path && allowlist.has_path_rules_for(host);
        let tokens = if allowlist.defers_tokens_of(&request) {
            TokenReport::Later
        } else if allowlist.counts_tokens_of(&request) {
            TokenReport::Response
        } else {
            TokenReport::None
        };
        Self { request, rule, question: None, method_counts, path_counts, tokens }
    }

    /// The permitted request.
    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    /// The host of the permitted request.
    pub(crate) fn host(&self) -> &HostName {
        self.request.host()
    }

    /// The rule that permits it; `None` if only the lowered shield does, or an answer.
    pub(crate) fn rule(&self) -> Option<&Match> {
        self.rule.as_ref()
    }

    /// The question whose answer permits it.
    pub(crate) fn question(&self) -> Option<u64> {
        self.question
    }

    /// Where the tokens that it uses are reported.
    pub(crate) fn tokens(&self) -> TokenReport {
        self.tokens
    }

    /// Whether rules of this host distinguish methods, so that none may hide in a header.
    pub(crate) fn method_counts(&self) -> bool {
        self.method_counts
    }

    /// Whether rules of this host distinguish paths, so that none may hide in a header.
    pub(crate) fn path_counts(&self) -> bool {
        self.path_counts
    }
}

#[cfg(test)]
mod tests {
    use allowlist::{Reason, Scheme};
    use futures_util::FutureExt;
    use sandbox_proxy_protocol::BlockReason;

    use super::*;

    fn ask(gate: &Gate) -> Result<(), BlockReason> {
        let request = Request::from_wire(Scheme::Https, b"a.example", b"GET", b"/").unwrap();
        gate.admit(request).map(|_| ()).map_err(|denial| denial.reason())
    }

    #[test]
    fn body_is_judged_by_the_policy_in_force_at_its_end() {
        let policy = |yaml: &str| LivePolicy::new(Allowlist::from_yaml(yaml, "policy.yaml").unwrap());
        let pushing = "url_prefixes: [{host: a.example, git: {push: [refs/heads/x]}}]";
        let (live, receiver) = watch::channel(policy(pushing));
        let gate = Gate::new(receiver);
        let command = format!("{} {} refs/heads/x", "0".repeat(40), "1".repeat(40));
        let push = format!("{:04x}{command}0000", command.len() + 4);
        for (change, expected) in [
            ("", Ok(())),
            (pushing, Ok(())),
            ("domains: [a.example]", Ok(())),
            (
                "url_prefixes: [{host: a.example, git: {push: [refs/heads/y]}}]",
                Err(Reason::RefNotAllowed.into()),
            ),
            ("domains: [b.example]", Err(Reason::Host.into())),
            ("quarantine", Err(BlockReason::Quarantine)),
        ] {
            let request = Request::from_wire(Scheme::Https, b"a.example", b"POST", b"/r/git-receive-pack");
            let Ok(Admission::Pending(mut pending)) = gate.admit(request.unwrap()) else {
                panic!("the body decides");
            };
            let (first, _) = push.as_bytes().split_at(20);
            assert!(gate.advance(&mut pending, first, false).unwrap().is_none());
            match change {
                "" => {}
                "quarantine" => live.send_modify(LivePolicy::quarantine),
                yaml => drop(live.send_replace(policy(yaml))),
            }
            let passed = gate.advance(&mut pending, push.as_bytes(), false);
            let passed = passed.map(|passed| drop(passed.unwrap())).map_err(|denial| denial.reason());
            assert_eq!(passed, expected, "{change}");
            if change != "quarantine" {
                live.send_replace(policy(pushing));
            }
        }
    }

    #[tokio::test]
    async fn gate_follows_the_policy_until_quarantine() {
        let policy = |yaml: &str| Allowlist::from_yaml(yaml, "policy.yaml").unwrap();
        let (live, receiver) = watch::channel(LivePolicy::new(Allowlist::default()));
        let gate = Gate::new(receiver);
        assert_eq!(ask(&gate), Err(Reason::Host.into()));
        live.send_replace(LivePolicy::new(policy("domains: [a.example]")));
        assert_eq!(ask(&gate), Ok(()));
        let mut watch = gate.watch();
        assert!(watch.begun().now_or_never().is_none());
        live.send_modify(LivePolicy::neglect);
        assert_eq!(ask(&gate), Err(BlockReason::Limit));
        watch.begun().await;
        let mut watch = gate.watch();
        assert!(watch.begun().now_or_never().is_none());
        live.send_modify(|policy| policy.unattended = false);
        assert_eq!(ask(&gate), Ok(()));
        assert!(watch.begun().now_or_never().is_none());
        live.send_modify(LivePolicy::quarantine);
        assert_eq!(ask(&gate), Err(BlockReason::Quarantine));
        watch.begun().await;
        watch.begun().await;
        assert!(gate.watch().begun().now_or_never().is_none());
        live.send_modify(|policy| policy.lower(60_000));
        assert_eq!(ask(&gate), Err(BlockReason::Quarantine), "nothing ends it");
    }

    #[tokio::test(start_paused = true)]
    async fn lowered_shield_permits_any_host_and_still_names_rules() {
        let rules = "url_prefixes: [{host: a.example, path: /v1/*, methods: [GET]}, \
                     {host: git.example, path: /o/r.git, git: {push: [refs/heads/agent/*]}}]\n\
                     deny: [{host: d.example, path: /x}, e.example]";
        let policy = Allowlist::from_yaml(rules, "p");
        let (live, receiver) = watch::channel(LivePolicy::new(policy.unwrap()));
        let gate = Gate::new(receiver);
        let ask = |host: &str, method: &str, target: &str| {
            let request =
                Request::from_wire(Scheme::Https, host.as_bytes(), method.as_bytes(), target.as_bytes());
            let permit = gate.admit(request.unwrap()).map_err(|denial| denial.reason());
            permit.map(|admission| match admission {
                Admission::Permit(permit) => {
                    Some((permit.rule().is_some(), permit.method_counts(), permit.path_counts()))
                }
                Admission::Pending(_) | Admission::Unruled(_) => None,
            })
        };
        assert_eq!(ask("b.example", "GET", "/"), Err(Reason::Host.into()), "the control");
        live.send_modify(|policy| policy.lower(60_000));
        assert_eq!(ask("b.example", "POST", "/"), Ok(Some((false, false, false))));
        assert_eq!(ask("a.example", "POST", "/"), Ok(Some((false, true, false))));
        assert_eq!(ask("a.example", "GET", "/v1/x"), Ok(Some((true, true, true))));
        // Rules for pushes still judge pushes to their host, and no header hides one.
        assert_eq!(ask("git.example", "GET", "/x"), Ok(Some((false, true, true))));
        assert_eq!(ask("git.example", "POST", "/o/r.git/git-receive-pack"), Ok(None));
        assert!(ask("git.example", "POST", "/o/other.git/git-receive-pack").is_err());
        assert!(ask("other.example", "POST", "/o/r.git/git-receive-pack").is_ok());
        // So do rules of `deny`, and no header names another path or method.
        assert_eq!(ask("d.example", "GET", "/y"), Ok(Some((false, true, true))));
        assert_eq!(ask("d.example", "GET", "//X"), Err(Reason::Denied.into()));
        assert_eq!(ask("e.example", "GET", "/"), Err(Reason::Denied.into()));
        let service = Request::from_wire(Scheme::Http, b"mcp", b"GET", b"/").unwrap();
        assert_eq!(gate.admit_to_service(service).unwrap_err().reason(), Reason::Host.into());
        live.send_modify(|policy| policy.unattended = true);
        assert_eq!(ask("b.example", "GET", "/"), Err(BlockReason::Limit));
        live.send_modify(|policy| policy.unattended = false);
        tokio::time::advance(std::time::Duration::from_millis(59_999)).await;
        assert_eq!(ask("b.example", "GET", "/"), Ok(Some((false, false, false))));
        // It ends without any event.
        tokio::time::advance(std::time::Duration::from_millis(1)).await;
        assert_eq!(ask("b.example", "GET", "/"), Err(Reason::Host.into()));
        assert_eq!(ask("a.example", "GET", "/v1/x"), Ok(Some((true, true, true))));
    }
}
