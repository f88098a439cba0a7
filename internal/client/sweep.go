package client

import (
	"context"
	"crypto/rand"
	"iter"
	"maps"
	"net/http"
	"time"
)

// sweepAttempts is how often a page of a sweep is asked for.
const sweepAttempts = 6

// Changes is Pages for a request that changes something. When ctx ends, the page in
// flight is still waited for, so that it is known what was done.
func (c *Client) Changes(ctx context.Context, request Request) iter.Seq2[Page, error] {
	return pages(ctx, request, c.change)
}

func (c *Client) change(ctx context.Context, request Request) (Page, error) {
	return c.Page(context.WithoutCancel(ctx), request)
}

// Sweep is Changes that may be asked for again. It sends an idempotency key, so that
// a page whose answer is lost, or that the server cannot serve just now, is asked for
// again without being done twice. Options.Lost is called with it.
func (c *Client) Sweep(ctx context.Context, request Request) iter.Seq2[Page, error] {
	header := http.Header{}
	maps.Copy(header, request.Header)
	header.Set("Idempotency-Key", rand.Text())
	request.Header = header
	return pages(ctx, request, c.insist)
}

// insist asks for a page until there is an answer that is one, or trying again would
// not help.
func (c *Client) insist(ctx context.Context, request Request) (Page, error) {
	wait := firstWait
	for attempt := 1; ; attempt++ {
		page, err := c.change(ctx, request)
		if err == nil || ctx.Err() != nil || isFinal(err) || attempt == sweepAttempts {
			return page, err
		}
		c.options.Lost(err, wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return Page{}, ErrInterrupted
		}
		wait = min(2*wait, mostWait)
	}
}
