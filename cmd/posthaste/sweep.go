package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/schollz/progressbar/v3"

	"posthaste/internal/client"
)

// sweptPage is what the server answers to one request of a sweep.
type sweptPage struct {
	DryRun  bool              `json:"dryRun"`
	Total   int               `json:"total"` // of a dry run
	Started []json.RawMessage `json:"workflowRuns"`
	Deleted int               `json:"deleted"`

	Failures []struct {
		DLQID string `json:"dlqId"`
		Error string `json:"error"`
	} `json:"failures"`
}

// sweep is a change of many entries of the DLQ in progress.
type sweep struct {
	terminal
	bar    *progressbar.ProgressBar
	cursor string // of the page to come
	done   int    // entries that were changed
	failed int    // entries that could not be
}

// sweep sends a request page by page, writes the runs that were started, unless the
// output is none, and says on Err how far it is. An entry that could not be changed is
// an error once the others are.
func (s *selected) sweep(t terminal, request client.Request, done, output string) error {
	ctx, forget := untilSignal()
	defer forget()
	server, err := s.open(t)
	if err != nil {
		return err
	}
	total, answer, err := dryRun(ctx, server, request)
	switch {
	case err != nil:
		return err
	case s.DryRun && (output == "json" || output == "ndjson"):
		return writeLine(t.Out, "%s", answer)
	case s.DryRun:
		return writeLine(t.Out, "%s would be %s", counted(total, "failed run"), done)
	}
	w := &sweep{terminal: t, bar: newBar(t.Err, total, "runs"), cursor: s.Cursor}
	err = printAll(t, func(out *bufio.Writer, coloured bool) printer {
		if output == "" {
			return noPrinter{}
		}
		return newPrinter(output, "workflowRuns", newStartedTable, out, coloured)
	}, w.started(server.Sweep(ctx, request)))
	return w.tell(done, total, err)
}

// dryRun asks how many entries a sweep is about.
func dryRun(ctx context.Context, server *client.Client, request client.Request) (total int, answer json.RawMessage, err error) {
	if err := server.Do(ctx, request.With("dryRun", "true"), &answer); err != nil {
		return 0, nil, err
	}
	var page sweptPage
	if err := json.Unmarshal(answer, &page); err != nil || !page.DryRun {
		return 0, nil, fmt.Errorf("the server does not know of dry runs: %w", err)
	}
	return page.Total, answer, nil
}

// started yields the runs that were started.
func (w *sweep) started(pages iter.Seq2[client.Page, error]) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for answer, err := range pages {
			var page sweptPage
			if err == nil {
				err = json.Unmarshal(answer.Body, &page)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			w.count(&page)
			w.cursor = answer.Cursor
			for _, run := range page.Started {
				if !yield(run, nil) {
					return
				}
			}
		}
	}
}

func (w *sweep) count(page *sweptPage) {
	n := len(page.Started) + page.Deleted
	w.done += n
	w.failed += len(page.Failures)
	_ = w.bar.Add(n + len(page.Failures)) // for the eye only
	for _, failure := range page.Failures {
		_ = w.bar.Clear()
		_, _ = fmt.Fprintf(w.Err, "dead letter %s stays: %s\n", shown(failure.DLQID), shown(failure.Error))
	}
}

// tell says how the sweep ended, and returns the error of the command.
func (w *sweep) tell(done string, total int, failure error) error {
	_ = w.bar.Clear()
	if failure != nil {
		more := ""
		if w.cursor != "" {
			more = fmt.Sprintf(", and --cursor %s goes on from there", w.cursor)
		}
		return fmt.Errorf("%s of %d %s%s: %w", counted(w.done, "failed run"), total, done, more, failure)
	}
	_, _ = fmt.Fprintf(w.Err, "%s %s\n", counted(w.done, "failed run"), done)
	if w.failed > 0 {
		return fmt.Errorf("%s could not be %s", counted(w.failed, "failed run"), done)
	}
	return nil
}

// unknownTotal is the total of a progress bar that shows only how much was done.
const unknownTotal = -1

// newBar returns a progress bar of so many things, which is seen on a terminal only.
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
