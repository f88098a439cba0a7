package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"posthaste/internal/client"
)

// preview is what a sweep would do, or one page of it. It is written as the API writes the
// response to a dry run.
type preview struct {
	DryRun   bool      `json:"dryRun"`
	Total    int       `json:"total"` // of a page: including later ones
	DLQIDs   []string  `json:"dlqIds"`
	Failures []failure `json:"failures,omitempty"` // entries among them that would not be changed
}

// dryRun asks the server page by page what a request would do.
type dryRun func(context.Context, *client.Client, client.Request) iter.Seq2[preview, error]

// serverDryRun is the dry run of what the server has one for.
func serverDryRun(ctx context.Context, server *client.Client, request client.Request) iter.Seq2[preview, error] {
	return func(yield func(preview, error) bool) {
		for answer, err := range server.Pages(ctx, request.With("dryRun", "true")) {
			var page preview
			if err == nil {
				err = json.Unmarshal(answer.Body, &page)
			}
			if err == nil && !page.DryRun {
				err = errors.New("the server does not support dry runs")
			}
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}

// total returns how many entries a request is about: those that are named, or the total of
// the first page.
func (c change) total(ctx context.Context, server *client.Client, request client.Request) (int, error) {
	if c.named > 0 {
		return c.named, nil
	}
	for page, err := range c.dryRun(ctx, server, request) {
		return page.Total, err
	}
	return 0, nil
}

// preview writes what a sweep would do. An entry that would not be changed, or is not there,
// is an error, as it is when the sweep is made.
func (c change) preview(t terminal, pages iter.Seq2[preview, error], output string) error {
	all := preview{DryRun: true, DLQIDs: []string{}}
	for page, err := range pages {
		if err != nil {
			return err
		}
		all.Total = max(all.Total, page.Total) // that of the first page
		all.DLQIDs = append(all.DLQIDs, page.DLQIDs...)
		all.Failures = append(all.Failures, page.Failures...)
	}
	failed := len(all.Failures)
	short := c.shortfall(all.Total-failed, failed)
	if c.together && all.Total < c.named {
		return fmt.Errorf("%w, so none would be changed", short)
	}
	for _, failure := range all.Failures {
		failure.tell(t)
	}
	text := fmt.Sprintf("%s would be %s", counted(all.Total-failed, c.thing), c.done)
	if failed > 0 {
		text += fmt.Sprintf(", %d would not", failed)
	}
	if output == "ndjson" {
		output = "json"
	}
	return errors.Join(writeResult(t, output, all, "%s", text), short)
}
