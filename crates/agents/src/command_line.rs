//! Command lines of agents.

use super::claude;
use super::profile::Agent;
use super::request::{Request, Typed};

impl Agent {
    /// The arguments for `request`. The prompt is not among them: it goes to stdin, where it cannot
    /// be mistaken for an option.
    #[must_use]
    pub fn command_line(&self, request: &Request<'_>) -> Vec<String> {
        if self.is_claude() {
            return claude::command_line(request);
        }
        let profile = self.profile();
        let command = if request.typed.is_some() { &profile.interactive } else { &profile.command };
        let Some(command) = command else {
            return Vec::new();
        };
        let mut arguments = command.first.clone();
        if let Some(Typed { folder, has_key }) = &request.typed {
            arguments.extend_from_slice(if *has_key { &command.with_key } else { &command.without_key });
            // The placeholder is inside a quoted text.
            let quoted = serde_json::Value::from(*folder).to_string();
            let inner = quoted.get(1..quoted.len() - 1).unwrap_or_default();
            for argument in &mut arguments {
                *argument = argument.replace("{folder}", inner);
            }
        }
        let mut add = |templates: &[String], name: &str, value: Option<&str>| {
            if let Some(value) = value {
                arguments.extend(templates.iter().map(|template| template.replace(name, value)));
            }
        };
        add(&command.model, "{model}", request.model);
        let quoted = request.briefing.map(|text| serde_json::Value::from(text).to_string());
        add(&command.briefing, "{json}", quoted.as_deref());
        arguments.extend(request.arguments.iter().cloned());
        match request.session {
            Some(session) => {
                arguments
                    .extend(command.resumed.iter().map(|template| template.replace("{session}", session)));
            }
            None => arguments.extend(command.last.iter().cloned()),
        }
        arguments
    }

    /// Whether the prompt must begin with the briefing because the agent has no option for it.
    #[must_use]
    pub fn is_briefed_by_prompt(&self) -> bool {
        self.profile().command.as_ref().is_some_and(|command| command.briefing.is_empty())
    }

    /// Whether the sandbox sets this option itself.
    pub(crate) fn sets(&self, option: &str) -> bool {
        self.profile().command.as_ref().is_some_and(|command| command.ours.iter().any(|ours| ours == option))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_follows_the_profile_and_the_request() {
        let given = ["--add-dir".to_owned(), "/data".to_owned()];
        let request = |session| Request {
            session,
            model: Some("m"),
            briefing: Some("a \"b\"\nc"),
            arguments: &given,
            ..Request::default()
        };
        let shown = |name: &str, request: &Request<'_>| {
            name.parse::<Agent>().unwrap().command_line(request).join(" ")
        };
        let common = "exec --json --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check --config analytics.enabled=false \
                      --config check_for_update_on_startup=false --config features.plugins=false \
                      --config features.api_key_model_discovery=false --config \
                      model_providers.sandbox={name=\"OpenAI\",requires_openai_auth=true,supports_websockets=false,wire_api=\"responses\"} \
                      --config model_provider=\"sandbox\"";
        assert_eq!(shown("codex", &Request::default()), format!("{common} -"));
        assert_eq!(
            shown("codex", &request(Some("s"))),
            format!(
                "{common} --model m --config developer_instructions=\"a \\\"b\\\"\\nc\" --add-dir /data resume s -"
            )
        );
        assert_eq!(
            shown("gemini", &request(Some("s"))),
            "--output-format stream-json --yolo --skip-trust --model m --add-dir /data --resume s"
        );
        assert_eq!(shown("opencode", &request(None)), "run --format json --model m --add-dir /data");
        let typed = |has_key| Request {
            typed: Some(Typed { folder: "/work\"space", has_key }),
            session: Some("s"),
            ..Request::default()
        };
        let codex = shown("codex", &typed(true));
        assert!(codex.contains(r#"projects={"/work\"space"={trust_level="trusted"}}"#), "{codex}");
        assert!(codex.contains("env_key=\"CODEX_API_KEY\"") && codex.ends_with(" resume s"), "{codex}");
        assert!(shown("codex", &typed(false)).contains("requires_openai_auth=true"));
        assert_eq!(shown("gemini", &typed(true)), "--yolo --skip-trust --resume s");
        assert_eq!(shown("opencode", &typed(true)), "--session s");
        assert!("gemini".parse::<Agent>().unwrap().is_briefed_by_prompt());
        assert!(!"codex".parse::<Agent>().unwrap().is_briefed_by_prompt());
        assert!("codex".parse::<Agent>().unwrap().sets("--json"));
    }
}
