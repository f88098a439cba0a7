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
posthaste publish https://api.example.com/orders -d '{"order":42}' -H 'X-Source: shop' --label order-42
posthaste publish https://api.example.com/orders -d @order.json --delay 10m --retries 5
posthaste enqueue orders https://api.example.com/orders -d @order.json --deduplication-id order-42
posthaste trigger https://app.example.com/api/order -d '{"order":42}'
posthaste notify order-42-paid -d '{"paid":true}'
posthaste notify order-42-paid --workflow-run-id wfr_65b1f0c2a4
posthaste logs --state FAILED --from-date 15m
posthaste logs --message-id msg_26hZCxZCuWyyTWPmSVBrNB882AAA
posthaste logs --follow --host api.example.com --output ndjson
posthaste log-stats --from-date 6h
posthaste log-stats --bucket day --host api.example.com
posthaste runs list --state RUN_FAILED --from-date 1d
posthaste runs list --host app.example.com --label order-42 --output ndjson
posthaste runs show wfr_65b1f0c2a4
posthaste runs cancel wfr_65b1f0c2a4
posthaste runs cancel --workflow-url https://app.example.com/api/order --yes
posthaste messages list --state FAILED --from-date 1h
posthaste messages show msg_26hZCxZCuWyyTWPmSVBrNB882AAA
posthaste messages run-now msg_26hZCxZCuWyyTWPmSVBrNB882AAA
posthaste messages retry msg_26hZCxZCuWyyTWPmSVBrNB882AAA
posthaste messages cancel msg_26hZCxZCuWyyTWPmSVBrNB882AAA
posthaste messages cancel --host api.example.com --label order-42 --yes
posthaste queues list
posthaste queues show orders
posthaste queues set orders --parallelism 4
posthaste queues pause orders
posthaste queues resume orders
posthaste queues delete orders
posthaste groups list
posthaste groups show shops
posthaste groups set shops --endpoint https://a.example.com --endpoint backup=https://b.example.com --retries 5
posthaste groups remove shops backup
posthaste groups delete shops
posthaste schedules list
posthaste schedules show nightly
posthaste schedules set nightly https://api.example.com/report --cron 'CRON_TZ=Europe/Berlin 30 3 * * *'
posthaste schedules ticks '30 3 * * 1-5'
posthaste schedules pause nightly
posthaste schedules resume nightly
posthaste schedules delete nightly
posthaste flow list
posthaste flow show tenant-7
posthaste flow set tenant-7 --parallelism 5 --rate 100 --period 1m
posthaste flow unpin tenant-7
posthaste flow pause tenant-7
posthaste flow resume tenant-7
posthaste flow reset-rate tenant-7
posthaste flow delete tenant-7
posthaste keys show
posthaste keys rotate --yes
posthaste actions list
posthaste actions cancel act_17000000000008c1f0e2a9b3d
posthaste dlq list --from-date 12h
posthaste dlq show 1700000000000-0
posthaste dlq restart --workflow-url https://app.example.com/api/order --dry-run
posthaste dlq restart --workflow-url https://app.example.com/api/order
posthaste dlq resume --all --with-flow-control-key recover --with-flow-control-value parallelism=10
posthaste dlq delete --label test --yes
posthaste dlq messages list --destination https://api.example.com/orders --from-date 12h
posthaste dlq messages show 1700000000000-0
posthaste dlq messages retry --destination https://api.example.com/orders --dry-run
posthaste dlq messages retry --destination https://api.example.com/orders
posthaste dlq messages delete --label test --yes
posthaste profile add work --url https://posthaste.example.com    # asks for the token
posthaste profile use work
posthaste profile list
posthaste profile remove work
posthaste apply -f posthaste.yaml --plan
posthaste apply -f posthaste.yaml --prune managed --yes
posthaste import --from https://qstash.upstash.io --token "$HOSTED_TOKEN" --dry-run
posthaste import --from https://qstash.upstash.io --token "$HOSTED_TOKEN" --dlq
posthaste open
posthaste mcp
posthaste mcp --allow-writes
posthaste health --url http://127.0.0.1:8080 --timeout 2s
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
	options.NoExpandSubcommands = ctx.Selected() == nil // all of them do not fit a screen
	for node := ctx.Selected(); node != nil; node = node.Parent {
		node.Group = nil // the heading is that of the list of all commands
	}
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
