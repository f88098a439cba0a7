package cli

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// examples are command lines to copy. The help of a command ends with those that begin with
// its name.
const examples = `
posthaste dev
posthaste dev --port 9000 --data ./data    # keep data between runs
posthaste serve --data /var/lib/posthaste
posthaste serve --config /etc/posthaste.yaml --log-format json
posthaste serve --database-url postgres://posthaste:secret@db/posthaste
posthaste logs --state FAILED --from-date 15m
posthaste logs --message-id msg_26hZCxZCuWyyTWPmSVBrNB882AAA
posthaste logs --follow --host api.example.com --output ndjson
posthaste runs list --state RUN_FAILED --from-date 1d
posthaste runs list --host app.example.com --label order-42 --output ndjson
posthaste runs show wfr_65b1f0c2a4
posthaste runs cancel wfr_65b1f0c2a4
posthaste runs cancel --workflow-url https://app.example.com/api/order
posthaste messages show msg_26hZCxZCuWyyTWPmSVBrNB882AAA
posthaste messages run-now msg_26hZCxZCuWyyTWPmSVBrNB882AAA
posthaste messages cancel msg_26hZCxZCuWyyTWPmSVBrNB882AAA
posthaste messages cancel --host api.example.com --label order-42
posthaste actions list
posthaste actions cancel act_17000000000008c1f0e2a9b3d
posthaste dlq list --from-date 12h
posthaste dlq show 1700000000000-0
posthaste dlq restart --workflow-url https://app.example.com/api/order --dry-run
posthaste dlq restart --workflow-url https://app.example.com/api/order
posthaste dlq resume --all --with-flow-control-key recover --with-flow-control-value parallelism=10
posthaste dlq delete --label test
posthaste dlq messages list --destination https://api.example.com/orders --from-date 12h
posthaste dlq messages show 1700000000000-0
posthaste dlq messages retry --destination https://api.example.com/orders --dry-run
posthaste dlq messages retry --destination https://api.example.com/orders
posthaste dlq messages delete --label test
posthaste open
posthaste stats --days
posthaste copy --from /var/lib/posthaste --to postgres://posthaste:secret@db/posthaste
posthaste copy --from postgres://posthaste:secret@db/posthaste --to /var/lib/posthaste
posthaste backup --data /var/lib/posthaste --to /backup/posthaste-monday
posthaste restore --from /backup/posthaste-monday --to /var/lib/posthaste
posthaste check --data /backup/posthaste-monday
posthaste check --database-url postgres://posthaste:secret@db/posthaste
posthaste schema show --database-url postgres://posthaste:secret@db/posthaste
posthaste verify "$SIGNATURE" --destination https://example.com/hook --body-file body.json
posthaste verify "$SIGNATURE" --body '{"hello":"world"}' --at 5m --output json
posthaste verify --request received.http
posthaste completion bash > /etc/bash_completion.d/posthaste
posthaste completion zsh > "${fpath[1]}/_posthaste"
posthaste completion fish > ~/.config/fish/completions/posthaste.fish
posthaste version --output json
`

// helpCommand is --help for those who say help first.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command to describe, such as dlq restart. Default: list all commands."`
}

// AfterApply shows the help of the command and ends the program: a command that there is
// not is a wrong command line.
func (c *helpCommand) AfterApply(ctx *kong.Context) error {
	_, err := ctx.Kong.Parse(append(c.Command, "--help"))
	return err
}

// printHelp prints the help of a command. It ends with what people look for first:
// command lines to copy, and what the exit code says.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	node := ctx.Selected()
	if node == nil {
		node = ctx.Model.Node
	}
	text := exitCodes
	if lines := examplesOf(node); len(lines) > 0 && node != ctx.Model.Node {
		text += "\nExamples:\n  " + strings.Join(lines, "\n  ") + "\n"
	}
	_, err := io.WriteString(ctx.Stdout, "\n"+text)
	return err
}

// examplesOf returns the examples of a command and of those below it.
func examplesOf(node *kong.Node) (lines []string) {
	for line := range strings.Lines(examples) {
		if strings.HasPrefix(strings.TrimSpace(line)+" ", "posthaste "+pathOf(node)+" ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// pathOf returns the names of a command, without that of the program.
func pathOf(node *kong.Node) string {
	if node.Parent == nil {
		return ""
	}
	return strings.TrimSpace(pathOf(node.Parent) + " " + node.Name)
}
