package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"posthaste"
	"posthaste/internal/client"
)

// sweeping is how a command is asked to change many entries.
type sweeping struct {
	All    bool `env:"-" help:"Select every entry. Required if neither IDs nor a filter are given."`
	DryRun bool `env:"-" help:"Change nothing; show how many entries would be affected."`
	connection
}

// connect returns how the command is asked.
func (s sweeping) connect() *sweeping { return &s }

// selectionOf returns a sentence about what a command is to change if that is not
// clear: ids, or a filter, or everything.
func selectionOf(ids, filter, all bool) error {
	switch {
	case ids && (filter || all):
		return posthaste.Invalidf("ids cannot be combined with a filter or --all: give one of them")
	case filter && all:
		return posthaste.Invalidf("--all cannot be combined with a filter: give one of them")
	case !ids && !filter && !all:
		return posthaste.Invalidf("nothing is selected: give ids, a filter, or --all")
	}
	return nil
}

// distinctIDs returns the ids that are given, each once, in order. Like the server it takes
// lists with commas apart.
func distinctIDs(given []string) (ids []string) {
	seen := map[string]bool{"": true}
	for _, list := range given {
		for id := range strings.SplitSeq(list, ",") {
			if id = strings.TrimSpace(id); !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// countIDs returns how many ids are given, each of which counts once.
func countIDs(given []string) int { return len(distinctIDs(given)) }

// change is what a sweep does to the entries that a request selects.
type change struct {
	thing      string // what an entry is
	done       string // what becomes of it
	named      int    // how many entries are named by their ids, 0 if that is not known
	together   bool   // of those that are named, all or none
	made       string // the name under which an answer has what takes the place of entries; "" if nothing does
	table      table  // of that
	dryRun     dryRun
	repeatable bool // a page may be asked for again, and its cursor by another command

	ask *confirmation // before it is made; nil: nobody is asked
}

// shortfall returns an error if entries failed to be changed, or if some that were named are
// not there.
func (c change) shortfall(done, failed int) error {
	switch missing := c.named - done - failed; {
	case missing > 0:
		return fmt.Errorf("%d of %s could not be %s: not in the DLQ", missing, counted(c.named, c.thing), c.done)
	case failed > 0:
		return fmt.Errorf("%s could not be %s", counted(failed, c.thing), c.done)
	}
	return nil
}

// pages sends a request page by page.
func (c change) pages(ctx context.Context, server *client.Client, request client.Request) iter.Seq2[client.Page, error] {
	if c.repeatable {
		return server.Sweep(ctx, request)
	}
	return server.Changes(ctx, request)
}

// sweptPage is what the server answers to one request of a sweep.
type sweptPage struct {
	made []json.RawMessage

	Deleted  int       `json:"deleted"`
	Failures []failure `json:"failures"`
}

// failure is an entry that a sweep does not change, and why.
type failure struct {
	DLQID string `json:"dlqId"`
	Error string `json:"error"`
}

func (f failure) tell(t terminal) {
	_ = writeLine(t.Err, "DLQ entry %s was not changed: %s", shown(f.DLQID), shown(f.Error))
}

func (c change) read(body json.RawMessage) (page sweptPage, err error) {
	if err := json.Unmarshal(body, &page); err != nil {
		return page, err
	}
	page.made, err = listIn(body, c.made)
	return page, err
}

// sweep is a change of many entries in progress.
type sweep struct {
	terminal
	change change
	bar    *progressbar.ProgressBar
	cursor string // of the next page
	done   int    // entries that were changed
	failed int    // entries that could not be
}

// sweep sends a request page by page, writes what was made of the entries, or as JSON
// how many there were, and says on Err how far it is. An entry that could not be changed,
// or was named and is not there, is an error once the others are.
func (s *sweeping) sweep(t terminal, request client.Request, c change, output string) error {
	return s.call(t, func(ctx context.Context, server *client.Client) error {
		if s.DryRun {
			return c.preview(t, c.dryRun(ctx, server, request), output)
		}
		total, err := c.total(ctx, server, request)
		if err != nil {
			return err
		}
		if c.ask != nil && total > 0 {
			if err := c.ask.ask(t, "delete "+counted(total, c.thing)+" from the DLQ"); err != nil {
				return err
			}
		}
		w := &sweep{terminal: t, change: c, bar: newBar(t.Err, total, c.thing+"s"), cursor: request.Query.Get("cursor")}
		return w.tell(total, w.print(output, w.changed(c.pages(ctx, server, request))))
	})
}

// print makes the changes, and writes what comes of them.
func (w *sweep) print(output string, made iter.Seq2[json.RawMessage, error]) error {
	c := w.change
	if c.made != "" {
		return list{output: output, name: c.made, table: c.table}.write(w.terminal, made)
	}
	var failure error
	for _, failure = range made {
	}
	if output != "json" {
		return failure
	}
	return errors.Join(failure, writeJSON(w.Out, map[string]int{c.done: w.done}))
}

// changed yields what takes the place of the entries.
func (w *sweep) changed(pages iter.Seq2[client.Page, error]) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for answer, err := range pages {
			var page sweptPage
			if err == nil {
				page, err = w.change.read(answer.Body)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			w.count(&page)
			w.cursor = answer.Cursor
			for _, made := range page.made {
				if !yield(made, nil) {
					return
				}
			}
		}
	}
}

func (w *sweep) count(page *sweptPage) {
	n := len(page.made) + page.Deleted
	w.done += n
	w.failed += len(page.Failures)
	_ = w.bar.Add(n + len(page.Failures)) // for the eye only
	for _, failure := range page.Failures {
		_ = w.bar.Clear()
		failure.tell(w.terminal)
	}
}

// tell prints how the sweep ended, and returns the error of the command.
func (w *sweep) tell(total int, failure error) error {
	_ = w.bar.Clear()
	c := w.change
	if failure != nil {
		return fmt.Errorf("%s of %d %s%s: %w", counted(w.done, c.thing), total, c.done, w.rest(), failure)
	}
	_ = writeLine(w.Err, "%s %s", counted(w.done, c.thing), c.done)
	return c.shortfall(w.done, w.failed)
}

// rest says how to continue a sweep that was interrupted.
func (w *sweep) rest() string {
	if w.cursor == "" || !w.change.repeatable {
		return ""
	}
	return fmt.Sprintf(", use --cursor %s to continue", w.cursor)
}

// unknownTotal is the total of a progress bar that shows only how much was done.
const unknownTotal = -1

// newBar returns a progress bar with a total, shown on a terminal only.
func newBar(out io.Writer, total int, things string) *progressbar.ProgressBar {
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetVisibility(isTerminal(out)),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString(things),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth(),
	)
}
