package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// examples are command lines to copy, by command. They are what its help ends with.
var examples = map[string][]string{
	"dev": {
		`posthaste dev`,
		`posthaste dev --port 9000 --data ./data    # keep what is done`,
	},
	"serve": {
		`posthaste serve --data /var/lib/posthaste`,
		`posthaste serve --config /etc/posthaste.yaml --log-format json`,
		`posthaste serve --database-url postgres://posthaste:secret@db/posthaste`,
	},
	"logs": {
		`posthaste logs --state FAILED --from-date 15m`,
		`posthaste logs --message-id msg_26hZCxZCuWyyTWPmSVBrNB882AAA`,
		`posthaste logs --follow --host api.example.com --output ndjson`,
	},
	"runs": {
		`posthaste runs list --state RUN_FAILED --from-date 1d`,
		`posthaste runs show wfr_65b1f0c2a4`,
		`posthaste runs cancel --workflow-url https://app.example.com/api/order`,
	},
	"dlq": {
		`posthaste dlq list --from-date 12h`,
		`posthaste dlq restart --workflow-url https://app.example.com/api/order --dry-run`,
		`posthaste dlq resume --all --with-flow-control-key recover --with-flow-control-value parallelism=10`,
	},
	"stats": {
		`posthaste stats --days`,
	},
	"copy": {
		`posthaste copy --from /var/lib/posthaste --to postgres://posthaste:secret@db/posthaste`,
		`posthaste copy --from postgres://posthaste:secret@db/posthaste --to /var/lib/posthaste`,
	},
	"backup": {
		`posthaste backup --data /var/lib/posthaste --to /backup/posthaste-monday`,
	},
	"restore": {
		`posthaste restore --from /backup/posthaste-monday --to /var/lib/posthaste`,
	},
	"check": {
		`posthaste check --data /backup/posthaste-monday`,
	},
	"verify": {
		`posthaste verify "$SIGNATURE" --destination https://example.com/hook --body-file body.json`,
		`posthaste verify "$SIGNATURE" --body '{"hello":"world"}' --at 5m --output json`,
	},
	"bench": {
		`posthaste bench publish latency`,
	},
	"completion": {
		`posthaste completion bash > /etc/bash_completion.d/posthaste`,
		`posthaste completion zsh > "${fpath[1]}/_posthaste"`,
		`posthaste completion fish > ~/.config/fish/completions/posthaste.fish`,
	},
	"version": {
		`posthaste version --output json`,
	},
}

// addExamples puts the examples behind the help of the commands.
func addExamples(program *kong.Application) {
	for _, command := range program.Children {
		if lines := examples[command.Name]; len(lines) > 0 {
			command.Detail = "Examples:\n\n  " + strings.Join(lines, "\n  ")
		}
	}
}
