// Package cli is the command line of Posthaste: the development server, the
// server, the tools around them, and clients of the API.
//
// It turns settings into app.Options and failures into sentences and exit codes.
// What the server does is in internal/app and below; the commands that are clients
// go through internal/client.
package cli

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
)

// commands is the registry of subcommands, one line each.
type commands struct {
	Dev     devCommand     `cmd:"" group:"Run a server:" set:"body_size=10MiB" help:"Run a local development server, a replacement for qstash dev."`
	Serve   serveCommand   `cmd:"" group:"Run a server:" set:"body_size=1MiB" help:"Run the server."`
	Health  healthCommand  `cmd:"" group:"Run a server:" help:"Check whether a server is ready, for container health checks."`
	Backup  backupCommand  `cmd:"" group:"Run a server:" help:"Back up a data directory, even while its server runs."`
	Restore restoreCommand `cmd:"" group:"Run a server:" help:"Restore a backup into a new data directory."`
	Copy    copyCommand    `cmd:"" group:"Run a server:" help:"Copy all data from a data directory to a database, or back."`
	Check   checkCommand   `cmd:"" group:"Run a server:" help:"Check a data directory, a backup or a database for damage."`
	Schema  schemaCommand  `cmd:"" group:"Run a server:" help:"Show a database's schema version."`
	Stats   statsCommand   `cmd:"" group:"Run a server:" help:"Show how much data is stored."`

	Publish publishCommand `cmd:"" group:"Send:" help:"Publish a message."`
	Enqueue enqueueCommand `cmd:"" group:"Send:" help:"Publish a message through a queue."`
	Trigger triggerCommand `cmd:"" group:"Send:" help:"Start a run of a workflow."`
	Notify  notifyCommand  `cmd:"" group:"Send:" help:"Notify workflow runs of an event."`

	Logs     logsCommand     `cmd:"" group:"See what happened, and repair it:" help:"Show or follow the log of message deliveries."`
	LogStats logStatsCommand `cmd:"" group:"See what happened, and repair it:" help:"Count deliveries, errors and latency by hour or day, and show failing destinations."`
	Messages messagesCommand `cmd:"" group:"See what happened, and repair it:" help:"List, show, retry and cancel messages."`
	Runs     runsCommand     `cmd:"" group:"See what happened, and repair it:" help:"List, show and cancel workflow runs."`
	DLQ      dlqCommand      `cmd:"" group:"See what happened, and repair it:" name:"dlq" help:"List the dead letter queue, and retry or restart its entries."`
	Actions  actionsCommand  `cmd:"" group:"See what happened, and repair it:" help:"List and cancel background bulk actions."`
	Open     openCommand     `cmd:"" group:"See what happened, and repair it:" help:"Open the console in a browser."`

	Queues    queuesCommand    `cmd:"" group:"Set up:" help:"List, set, pause and delete queues."`
	Groups    groupsCommand    `cmd:"" group:"Set up:" help:"List, set and delete URL groups."`
	Schedules schedulesCommand `cmd:"" group:"Set up:" help:"List, set, pause and delete schedules."`
	Flow      flowCommand      `cmd:"" group:"Set up:" help:"List, limit, pause and delete flow-control keys."`
	Keys      keysCommand      `cmd:"" group:"Set up:" help:"Show and rotate the signing keys."`
	Apply     applyCommand     `cmd:"" group:"Set up:" help:"Apply a file of queues, URL groups, schedules and flow-control keys."`
	Import    importCommand    `cmd:"" group:"Set up:" help:"Import queues, URL groups, schedules and dead letters from another server or a hosted account."`

	Profile     profileCommand    `cmd:"" group:"Tools:" help:"Save URLs and tokens of servers under names."`
	MCP         mcpCommand        `cmd:"" group:"Tools:" name:"mcp" help:"Let an agent use a server, over the Model Context Protocol on standard input and output."`
	Verify      verifyCommand     `cmd:"" group:"Tools:" help:"Verify a delivery's signature, and explain why it is invalid."`
	Completion  completionCommand `cmd:"" group:"Tools:" help:"Print a completion script for a shell."`
	Version     versionCommand    `cmd:"" group:"Tools:" help:"Print the version."`
	Help        helpCommand       `cmd:"" group:"Tools:" help:"Show the help of a command."`
	ShowVersion versionFlag       `name:"version" env:"-" help:"Print the version."`

	CompletionWords completionWords `cmd:"" group:"Tools:" hidden:"" help:"Print the possible completions of a command line."`
	Man             manCommand      `cmd:"" group:"Tools:" hidden:"" help:"Print the manual page, for packages."`
}

// Exit codes. A program that panics ends with 2 as well, so that a supervisor restarts it
// whatever it ended with.
const (
	exitOK      = 0
	exitFailure = 1 // what was asked for could not be done
	exitUsage   = 2 // the command line or a setting is wrong
)

// exitCodes says in the help what they are.
const exitCodes = `Exit codes:
  0  success
  1  the command failed, entirely or in part
  2  the command line or a setting is invalid
`

// terminal is where a command writes for the person who started it. Out takes
// what was asked for, Err the log.
type terminal struct{ Out, Err io.Writer }

// Main runs the program with the arguments of a command line, without its name, and
// returns the exit code.
func Main(args []string) int {
	// What a server keeps, and its backups, hold message bodies, tokens and signing keys:
	// no other user may read what this program creates. The storage engine asks for 0666.
	keepPrivate()
	// Package http tells the standard logger when a destination speaks out of turn, and
	// quotes it. Our own lines go elsewhere.
	log.SetOutput(io.Discard)
	return run(args, terminal{os.Stdout, os.Stderr})
}

// run runs one command line, without the program's name, and returns the exit
// code.
func run(args []string, t terminal) int {
	parser, err := newParser(&commands{}, t)
	if err != nil {
		return fail(t, exitFailure, err)
	}
	parsed, err := parser.Parse(spelled(args))
	if group := withoutCommand(err); group != nil {
		err = group.PrintUsage(false)
		if err == nil {
			return exitOK
		}
	}
	if err != nil {
		return fail(t, exitUsage, clearer(nameSources(err)))
	}
	if err := parsed.Run(t); err != nil {
		return fail(t, exitFailure, err)
	}
	return exitOK
}

// clearer returns an error of the parser in words that say what to do about it.
func clearer(err error) error {
	failed, isParse := errors.AsType[*kong.ParseError](err)
	if !isParse || failed.Context == nil {
		return err
	}
	text := err.Error()
	if missing, is := strings.CutPrefix(text, `expected "`); is && failed.Context.Selected() != nil {
		return fmt.Errorf("%s is missing: see posthaste help %[2]s", strings.TrimSuffix(missing, `"`), failed.Context.Selected().Path())
	}
	if flag, value, is := strings.Cut(text, ": expected a valid 64 bit int but got "); is {
		return fmt.Errorf("%s: expected a whole number but got %s", flag, value)
	}
	if argument, is := strings.CutPrefix(text, "unexpected argument "); is && !strings.Contains(argument, "did you mean") {
		help := "posthaste help"
		if selected := failed.Context.Selected(); selected != nil && selected.Name != "help" {
			help += " " + selected.Path()
		}
		return fmt.Errorf("unexpected argument %q: see %s", argument, help)
	}
	if before, values, is := strings.Cut(text, ` must be one of "",`); is { // no value is the default
		return errors.New(before + " must be one of " + values)
	}
	return err
}

// withoutCommand returns the context of a command line that ends where a command has to
// follow, such as a bare "posthaste" or "posthaste dlq", and nil of any other.
func withoutCommand(err error) *kong.Context {
	failed, isParse := errors.AsType[*kong.ParseError](err)
	if !isParse || !strings.HasPrefix(failed.Error(), "expected one of ") {
		return nil
	}
	return failed.Context
}

func newParser(grammar *commands, t terminal) (*kong.Kong, error) {
	return kong.New(grammar,
		kong.Name("posthaste"),
		kong.Description("Durable HTTP message delivery that speaks the QStash v2 protocol."),
		kong.DefaultEnvars(envPrefix),
		kong.Writers(t.Out, t.Err),
		kong.Help(printHelp),
		kong.ExplicitGroups(flagGroups),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
}

// flagGroups are the headings of flags in the help.
var flagGroups = []kong.Group{
	{Key: "setting", Title: "Settings of the message:"},
	{Key: "override", Title: "Settings that replace earlier ones:"},
	{Key: "filter", Title: "Filters:"},
	{Key: "server", Title: "Server:"},
	{Key: "access", Title: "Access:"},
	{Key: "database", Title: "Database:"},
	{Key: "destinations", Title: "Destinations:"},
	{Key: "limits", Title: "Limits:"},
	{Key: "retention", Title: "Retention:"},
	{Key: "alerts", Title: "Alerts:"},
}

// fail prints why the program ends. The sentence is the last thing written:
// programs that start the server read it from there.
func fail(t terminal, code int, err error) int {
	_, _ = fmt.Fprintf(t.Err, "posthaste: %v\n", err)
	return code
}

// spelled rewrites -port=8081 as --port=8081, the spelling of programs that take one dash before
// a long name, and --retries -1 as --retries=-1, which the parser would take for a short name.
// No flag of ours has a short name that could be clustered, or that is a digit.
func spelled(args []string) []string {
	rewritten := make([]string, 0, len(args))
	for i, arg := range args {
		switch {
		case len(arg) < 2 || arg[0] != '-':
		case arg[1] >= '0' && arg[1] <= '9' && i > 0 && strings.HasPrefix(args[i-1], "-"):
			rewritten[len(rewritten)-1] += "=" + arg
			continue
		case len(arg) > 2 && unicode.IsLetter(rune(arg[1])):
			arg = "-" + arg
		}
		rewritten = append(rewritten, arg)
	}
	return rewritten
}
