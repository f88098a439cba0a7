package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"posthaste"
	"posthaste/internal/client"
)

// resource is a kind of thing that the API lists and keeps under a name. Its fields are the
// filters of its list, as flags.
type resource interface{ kind() kind }

// kind is where things of a kind are, and how they are shown.
type kind struct {
	thing   string   // what one is
	command string   // above those for them
	paths   []string // of its lists; one of them has the thing
	list    string   // the name of the list in a document
	id      string   // the member that names a thing
	since   string   // the member by which a list is sorted, the latest first; "": as the server sorts it
	table   table
	print   func(t terminal, thing json.RawMessage) error
}

// listThings lists all things of a kind, which the API does in one page.
type listThings[R resource] struct {
	Filter R `embed:""`
	listOutput
	connection
}

// Run prints the things.
func (c *listThings[R]) Run(t terminal) error {
	kind := c.Filter.kind()
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		things, err := kind.all(ctx, server, params(c.Filter))
		if err != nil {
			return err
		}
		return list{output: c.Output, name: kind.list, table: kind.table}.write(t, each(things))
	})
}

// all returns the things of a kind.
func (k kind) all(ctx context.Context, server *client.Client, query url.Values) (all []json.RawMessage, err error) {
	for _, path := range k.paths {
		var some []json.RawMessage
		if err := server.Do(ctx, client.Request{Path: path, Query: query}, &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if k.since != "" {
		slices.SortStableFunc(all, func(a, b json.RawMessage) int {
			return cmp.Compare(numberIn(b, k.since), numberIn(a, k.since))
		})
	}
	return all, nil
}

// numberIn returns a member of a value that is a number, 0 if it has none.
func numberIn(value json.RawMessage, name string) float64 {
	var members map[string]any
	_ = json.Unmarshal(value, &members) // printing it reports the error
	number, _ := members[name].(float64)
	return number
}

// textIn returns a member of a value that is a text, "" if it has none.
func textIn(value json.RawMessage, name string) string {
	var members map[string]any
	_ = json.Unmarshal(value, &members) // printing it reports the error
	text, _ := members[name].(string)
	return text
}

// each yields values that are all there.
func each(values []json.RawMessage) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for _, value := range values {
			if !yield(value, nil) {
				return
			}
		}
	}
}

// showThing shows one thing of a kind.
type showThing[R resource] struct {
	ID string `arg:"" name:"name" help:"${idhelp=ID.}"`
	oneOutput
	connection
}

// Run prints the thing.
func (c *showThing[R]) Run(t terminal) error {
	var r R
	err := c.show(t, client.Request{Path: below(r.kind().paths[0], c.ID)}, c.Output, r.kind().print)
	if isNotFound(err) {
		return r.kind().unknown(c.ID)
	}
	return err
}

// unknown returns a sentence about a name that no thing of the kind has.
func (k kind) unknown(name string) error {
	return posthaste.Errorf(posthaste.CodeNotFound, "there is no %s %q: see posthaste %s list", k.thing, name, k.command)
}

// isNotFound reports whether the server has no such thing.
func isNotFound(err error) bool {
	refused, ok := errors.AsType[*client.StatusError](err)
	return ok && refused.Status == http.StatusNotFound
}

// below returns the path of what has a name below another.
func below(path, name string) string { return path + "/" + url.PathEscape(name) }

// done is what becomes of a thing by a command that has the name of the change.
var done = map[string]string{
	"pause": "paused", "resume": "resumed", "unpin": "unpinned", "reset-rate": "reset", "delete": "deleted",
	"restart": "restarted", "retry": "retried", "cancel": "cancelled",
}

// changeThings changes things that are named. The command has the name of the change, and so
// has the API.
type changeThings[R resource] struct {
	Names []string `arg:"" name:"name" help:"One or more ${thing}s."`
	oneOutput
	connection
}

// Run changes the things one by one.
func (c *changeThings[R]) Run(t terminal, parsed *kong.Context) error {
	var r R
	verb := parsed.Selected().Name
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		return changeEach(ctx, t, server, r.kind(), c.Names, verb, c.Output)
	})
}

// changeEach changes things and says of each that it is.
func changeEach(ctx context.Context, t terminal, server *client.Client, k kind, names []string, verb, output string) (err error) {
	changed := []string{}
	for _, name := range names {
		request := client.Request{Method: http.MethodPost, Path: below(k.paths[0], name) + "/" + camel(verb)}
		switch verb {
		case "unpin": // both limits
			request.Query = url.Values{"parallelism": {"true"}, "rate": {"true"}}
		case "delete":
			request = client.Request{Method: http.MethodDelete, Path: below(k.paths[0], name)}
		}
		if verb != "pause" { // the API also deletes or resumes what is not there; a key may be paused before its first message
			err = server.Do(ctx, client.Request{Path: below(k.paths[0], name)}, nil)
		}
		if err == nil {
			err = server.Do(ctx, request, nil)
		}
		if isNotFound(err) {
			err = k.unknown(name)
			break
		}
		if err != nil {
			err = fmt.Errorf("%s %s: %w", k.thing, name, err)
			break
		}
		changed = append(changed, name)
		if output != "json" {
			_ = writeLine(t.Out, "%s %s %s", k.thing, shown(name), done[verb])
		}
	}
	if output == "json" {
		if wrote := writeJSON(t.Out, map[string][]string{done[verb]: changed}); err == nil {
			return wrote
		}
	}
	return err
}

// camel returns the name of a command as the API spells it: reset-rate as resetRate.
func camel(name string) string {
	first, rest, _ := strings.Cut(name, "-")
	if rest == "" {
		return first
	}
	return first + strings.ToUpper(rest[:1]) + rest[1:]
}

// confirmation is how a command is let do what cannot be undone to many things.
type confirmation struct {
	Yes bool `short:"y" env:"-" help:"Do not ask before an irreversible bulk change. Required without a terminal."`
}

// ask returns an error unless somebody says that something is to be done.
func (c confirmation) ask(t terminal, what string) error {
	if c.Yes {
		return nil
	}
	if !isTerminal(os.Stdin) || !isTerminal(t.Err) {
		return posthaste.Invalidf("this would %s: add --yes to do it", what)
	}
	if _, err := fmt.Fprintf(t.Err, "This will %s. Go on? [y/N] ", what); err != nil {
		return err
	}
	var answer string
	_, _ = fmt.Fscanln(os.Stdin, &answer) // no line is no
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		return posthaste.Invalidf("nothing was changed")
	}
	return nil
}

// deleteThings deletes things that are named, or all.
type deleteThings[R resource] struct {
	Names []string `arg:"" optional:"" name:"name" help:"One or more ${thing}s."`
	All   bool     `env:"-" help:"Delete every ${thing}."`
	confirmation
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *deleteThings[R]) Validate() error {
	if err := selectionOf(len(c.Names) > 0, false, c.All); err != nil {
		return err
	}
	return c.connection.Validate()
}

// Run deletes the things one by one.
func (c *deleteThings[R]) Run(t terminal) error {
	var r R
	k := r.kind()
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		if c.All {
			all, err := k.all(ctx, server, nil)
			if err != nil {
				return err
			}
			for _, thing := range all {
				c.Names = append(c.Names, textIn(thing, k.id))
			}
		}
		if len(c.Names) > 1 || c.All && len(c.Names) > 0 {
			if err := c.ask(t, "delete "+counted(len(c.Names), k.thing)+": "+brief(strings.Join(c.Names, ", "))); err != nil {
				return err
			}
		}
		if err := c.askForWaiting(ctx, t, server, k); err != nil {
			return err
		}
		return changeEach(ctx, t, server, k, c.Names, "delete", c.Output)
	})
}

// askForWaiting asks before the messages of a queue go with it.
func (c *deleteThings[R]) askForWaiting(ctx context.Context, t terminal, server *client.Client, k kind) error {
	if k.thing != "queue" || len(c.Names) != 1 {
		return nil
	}
	var queue listedQueue
	err := server.Do(ctx, client.Request{Path: below(k.paths[0], c.Names[0])}, &queue)
	if isNotFound(err) {
		return k.unknown(c.Names[0])
	}
	if err != nil || queue.Lag == 0 {
		return err
	}
	return c.ask(t, fmt.Sprintf("delete queue %s and cancel its %s", c.Names[0], counted(queue.Lag, "waiting message")))
}

// setThing sends the new settings of a thing, and says that it is set.
func (c *connection) setThing(t terminal, output, thing, name string, requests ...client.Request) error {
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		for _, request := range requests {
			if err := server.Do(ctx, request, nil); err != nil {
				return err
			}
		}
		return writeResult(t, output, map[string]string{"set": name}, "%s %s set", thing, shown(name))
	})
}
