package cli

import (
	"context"
	"fmt"
	"net/http"

	"posthaste/internal/client"
)

// live is what can be cancelled. Its fields are the filters, as flags.
type live interface{ cancellation() cancellation }

// cancellation is how things are cancelled.
type cancellation struct {
	thing  string // what is cancelled
	path   string
	ids    string // the name of a list of ids in a request
	count  string // of things that one request with a filter cancels at most
	spared string // which of those that are named are not cancelled
}

// cancelCommand cancels what ids or filters select.
type cancelCommand[L live] struct {
	IDs  []string `arg:"" optional:"" name:"id" help:"IDs of ${thing}s."`
	Live L        `embed:""`
	All  bool     `env:"-" help:"Select every ${thing}. Required if neither IDs nor a filter are given."`
	confirmation
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *cancelCommand[L]) Validate() error {
	if err := selectionOf(len(c.IDs) > 0, len(params(c.Live)) > 0, c.All); err != nil {
		return err
	}
	return c.connection.Validate()
}

// Run cancels things, as many at a time as one request takes, and says how many there were.
func (c *cancelCommand[L]) Run(t terminal) error {
	how := c.Live.cancellation()
	request := client.Request{Method: http.MethodDelete, Path: how.path, Query: params(c.Live)}
	if len(c.IDs) > 0 {
		request.Body = map[string]any{how.ids: c.IDs}
	} else {
		which := "every " + how.thing
		if !c.All {
			which = "all " + how.thing + "s that match"
		}
		if err := c.ask(t, "cancel "+which); err != nil {
			return err
		}
		request.Query.Set("count", how.count)
	}
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		return how.cancel(ctx, t, server, request, countIDs(c.IDs), c.Output)
	})
}

// cancel sends the request until ctx ends: then, or when it fails, it says how many things
// were cancelled until then. That one of those that are named was not is an error.
func (c cancellation) cancel(ctx context.Context, t terminal, server *client.Client, request client.Request, named int, output string) error {
	total, err := c.cancelAll(ctx, t, server, request)
	if err == nil || output == "json" {
		told := writeResult(t, output, map[string]int{"cancelled": total}, "cancelled %s", counted(total, c.thing))
		if err == nil && told != nil {
			return told
		}
	}
	if err != nil {
		return fmt.Errorf("%s cancelled: %w", counted(total, c.thing), err)
	}
	if n := named - total; n > 0 {
		return fmt.Errorf("%d of %s could not be cancelled: %s", n, counted(named, c.thing), c.spared)
	}
	return nil
}

// cancelAll sends the request until it finds nothing any more, or once if it lists what it
// cancels, and returns how many things there were. When ctx ends, the request in flight is
// still waited for, so that they are known. The bar on Err is for the eye.
func (c cancellation) cancelAll(ctx context.Context, t terminal, server *client.Client, request client.Request) (total int, err error) {
	bar := newBar(t.Err, unknownTotal, c.thing+"s")
	defer func() { _ = bar.Clear() }()
	for {
		var answer struct {
			Cancelled int `json:"cancelled"`
		}
		if err := server.Do(context.WithoutCancel(ctx), request, &answer); err != nil {
			return total, err
		}
		total += answer.Cancelled
		_ = bar.Add(answer.Cancelled)
		if answer.Cancelled == 0 || request.Body != nil {
			return total, nil
		}
		if ctx.Err() != nil {
			return total, client.ErrInterrupted
		}
	}
}
