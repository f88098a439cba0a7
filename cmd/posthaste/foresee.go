package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"posthaste/internal/client"
)

// foreseen is what a sweep would do, or a page of it. It is written as the API writes
// the answer to a dry run.
type foreseen struct {
	DryRun   bool     `json:"dryRun"`
	Total    int      `json:"total"` // of a page: also those of later ones
	DLQIDs   []string `json:"dlqIds"`
	Failures []stay   `json:"failures,omitempty"` // entries among them that would stay
}

// foreseer asks the server page by page what a request would do.
type foreseer func(context.Context, *client.Client, client.Request) iter.Seq2[foreseen, error]

// dryRun is a foreseer for what the server has a dry run of.
func dryRun(ctx context.Context, server *client.Client, request client.Request) iter.Seq2[foreseen, error] {
	return func(yield func(foreseen, error) bool) {
		for answer, err := range server.Pages(ctx, request.With("dryRun", "true")) {
			var page foreseen
			if err == nil {
				page, err = readForeseen(answer.Body)
			}
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}

func readForeseen(body json.RawMessage) (page foreseen, err error) {
	if err := json.Unmarshal(body, &page); err != nil {
		return page, fmt.Errorf("read the response to a dry run: %w", err)
	}
	if !page.DryRun {
		return page, errors.New("the server does not support dry runs")
	}
	return page, nil
}

// total returns how many entries a request is about: those that are named, or what the
// first page tells.
func (c change) total(ctx context.Context, server *client.Client, request client.Request) (int, error) {
	if c.named > 0 {
		return c.named, nil
	}
	for page, err := range c.foresee(ctx, server, request) {
		return page.Total, err
	}
	return 0, nil
}

// whole returns what all pages tell together.
func whole(pages iter.Seq2[foreseen, error]) (foreseen, error) {
	all := foreseen{DryRun: true, DLQIDs: []string{}}
	for page, err := range pages {
		if err != nil {
			return all, err
		}
		all.Total = max(all.Total, page.Total) // that of the first page
		all.DLQIDs = append(all.DLQIDs, page.DLQIDs...)
		all.Failures = append(all.Failures, page.Failures...)
	}
	return all, nil
}

// foretell writes what a sweep would do. An entry that would stay, or is not there, is an
// error, as it is when the sweep is made.
func (c change) foretell(t terminal, pages iter.Seq2[foreseen, error], output string) error {
	all, err := whole(pages)
	if err != nil {
		return err
	}
	stay := len(all.Failures)
	short := c.shortfall(all.Total-stay, stay)
	if c.together && all.Total < c.named {
		return fmt.Errorf("%w, so none would be changed", short)
	}
	for _, failure := range all.Failures {
		failure.tell(t)
	}
	return errors.Join(c.writeForeseen(t, all, output), short)
}

func (c change) writeForeseen(t terminal, all foreseen, output string) error {
	stay := len(all.Failures)
	switch {
	case output != "table":
		return writeJSON(t.Out, all)
	case stay > 0:
		return writeLine(t.Out, "%s would be %s, %d would not", counted(all.Total-stay, c.thing), c.done, stay)
	default:
		return writeLine(t.Out, "%s would be %s", counted(all.Total, c.thing), c.done)
	}
}
