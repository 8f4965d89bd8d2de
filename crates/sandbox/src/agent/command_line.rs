//! Command lines of agents other than Claude Code.

use super::profile::Agent;

/// What an execution asks of an agent.
#[derive(Debug, Default)]
pub(crate) struct Request<'a> {
    pub(crate) session: Option<&'a str>,
    pub(crate) model: Option<&'a str>,
    pub(crate) briefing: Option<&'a str>,
    /// The caller's.
    pub(crate) arguments: &'a [String],
}

impl Agent {
    /// The arguments for `request`. The prompt is none of them: it goes to stdin, where nothing takes it for an option.
    pub(crate) fn command_line(&self, request: &Request<'_>) -> Vec<String> {
        let Some(command) = &self.profile().command else {
            return Vec::new();
        };
        let mut arguments = command.first.clone();
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

    /// Whether the prompt has to begin with the briefing, as there is no option for it.
    pub(crate) fn is_briefed_by_prompt(&self) -> bool {
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
    fn a_command_line_is_what_is_asked_for() {
        let given = ["--add-dir".to_owned(), "/data".to_owned()];
        let request =
            |session| Request { session, model: Some("m"), briefing: Some("a \"b\"\nc"), arguments: &given };
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
        assert!("gemini".parse::<Agent>().unwrap().is_briefed_by_prompt());
        assert!(!"codex".parse::<Agent>().unwrap().is_briefed_by_prompt());
        assert!("codex".parse::<Agent>().unwrap().sets("--json"));
    }
}
