package main

import (
	"context"
	"errors"
	"fmt"

	"posthaste/internal/client"
)

// cancellation is what a command cancels.
type cancellation struct {
	thing  string // what it cancels
	named  int    // how many of them are named by their ids, 0 if they are selected otherwise
	spared string // which of those that are named are not cancelled
}

// run sends the request that cancels, and tells how many things there were.
func (c cancellation) run(t terminal, to *connection, request client.Request, output string) error {
	ctx, forget := untilSignal()
	defer forget()
	server, err := to.open(t)
	if err != nil {
		return err
	}
	return c.cancel(ctx, t, server, request, output)
}

// cancel is run until ctx ends: then, or when it fails, it tells how many things there were
// until then. That one of those that are named was not cancelled is an error.
func (c cancellation) cancel(ctx context.Context, t terminal, server *client.Client, request client.Request, output string) error {
	total, err := c.cancelAll(ctx, t, server, request)
	if err != nil {
		err = fmt.Errorf("%s cancelled: %w", counted(total, c.thing), err)
		if output == "json" {
			err = errors.Join(err, c.tell(t, total, output))
		}
		return err
	}
	if err := c.tell(t, total, output); err != nil {
		return err
	}
	if n := c.named - total; n > 0 {
		return fmt.Errorf("%d of %s could not be cancelled: %s", n, counted(c.named, c.thing), c.spared)
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

func (c cancellation) tell(t terminal, total int, output string) error {
	if output == "json" {
		return writeJSON(t.Out, map[string]int{"cancelled": total})
	}
	return writeLine(t.Out, "cancelled %s", counted(total, c.thing))
}
