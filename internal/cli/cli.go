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
	Dev       devCommand       `cmd:"" set:"body_size=10MiB" help:"Run a local development server, a replacement for qstash dev."`
	Serve     serveCommand     `cmd:"" set:"body_size=1MiB" help:"Run the server."`
	Publish   publishCommand   `cmd:"" help:"Publish a message."`
	Enqueue   enqueueCommand   `cmd:"" help:"Publish a message through a queue."`
	Trigger   triggerCommand   `cmd:"" help:"Start a run of a workflow."`
	Notify    notifyCommand    `cmd:"" help:"Notify workflow runs of an event."`
	Logs      logsCommand      `cmd:"" help:"Show or follow the log of message deliveries."`
	LogStats  logStatsCommand  `cmd:"" help:"Count deliveries, errors and latency by hour or day, and show failing destinations."`
	Runs      runsCommand      `cmd:"" help:"List, show and cancel workflow runs."`
	Messages  messagesCommand  `cmd:"" help:"List, show, retry and cancel messages."`
	DLQ       dlqCommand       `cmd:"" name:"dlq" help:"List the dead letter queue, and retry or restart its entries."`
	Queues    queuesCommand    `cmd:"" help:"List, set, pause and delete queues."`
	Groups    groupsCommand    `cmd:"" help:"List, set and delete URL groups."`
	Schedules schedulesCommand `cmd:"" help:"List, set, pause and delete schedules."`
	Flow      flowCommand      `cmd:"" help:"List, limit, pause and delete flow-control keys."`
	Keys      keysCommand      `cmd:"" help:"Show and rotate the signing keys."`
	Actions   actionsCommand   `cmd:"" help:"List and cancel background bulk actions."`
	Profile   profileCommand   `cmd:"" help:"Keep URLs and tokens of servers under names."`
	Apply     applyCommand     `cmd:"" help:"Make queues, URL groups, schedules and flow-control keys as a file has them."`
	Import    importCommand    `cmd:"" help:"Take over queues, URL groups, schedules and dead letters from another server or a hosted account."`
	Open      openCommand      `cmd:"" help:"Open the console in a browser."`
	MCP       mcpCommand       `cmd:"" name:"mcp" help:"Let an agent ask a server, over the Model Context Protocol on standard input and output."`
	Health    healthCommand    `cmd:"" help:"Ask whether a server is ready, for health checks of containers."`
	Stats     statsCommand     `cmd:"" help:"Show how much data is stored."`
	Backup    backupCommand    `cmd:"" help:"Back up a data directory, even while its server runs."`
	Restore   restoreCommand   `cmd:"" help:"Restore a backup into a new data directory."`
	Copy      copyCommand      `cmd:"" help:"Copy all data from a data directory to a database, or back."`
	Check     checkCommand     `cmd:"" help:"Check a data directory, a backup or a database for damage."`
	Schema    schemaCommand    `cmd:"" help:"Show a database's schema version."`
	Verify    verifyCommand    `cmd:"" help:"Verify a delivery's signature, and explain what is wrong with it."`
	Version   versionCommand   `cmd:"" help:"Print the version."`
	Help      helpCommand      `cmd:"" help:"Show the help of a command."`

	ShowVersion versionFlag `name:"version" env:"-" help:"Print the version."`

	Completion      completionCommand `cmd:"" help:"Print a completion script for a shell."`
	CompletionWords completionWords   `cmd:"" hidden:"" help:"Print the possible completions of a command line."`
	Man             manCommand        `cmd:"" hidden:"" help:"Print the manual page, for packages."`
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
	parsed, err := parser.Parse(doubleDashes(args))
	if group := withoutCommand(err); group != nil {
		err = group.PrintUsage(false)
		if err == nil {
			return exitOK
		}
	}
	if err != nil {
		return fail(t, exitUsage, nameSources(clearer(err)))
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
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
}

// fail tells why the program ends. The sentence is the last thing written:
// programs that start the server read it from there.
func fail(t terminal, code int, err error) int {
	_, _ = fmt.Fprintf(t.Err, "posthaste: %v\n", err)
	return code
}

// doubleDashes rewrites -port=8081 as --port=8081, the spelling of programs
// that take one dash before a long name. No flag of ours has a short name that
// could be clustered.
func doubleDashes(args []string) []string {
	rewritten := make([]string, len(args))
	for i, arg := range args {
		if len(arg) > 2 && arg[0] == '-' && unicode.IsLetter(rune(arg[1])) {
			arg = "-" + arg
		}
		rewritten[i] = arg
	}
	return rewritten
}
