package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
)

// Page is one answer of several to the same request.
type Page struct {
	Body   json.RawMessage
	Cursor string // of the next page, "" if this is the last
}

// Pages sends a request again and again, each time with the cursor of the answer
// before, until there is none, and yields the answers. An error is the last thing
// it yields: ErrInterrupted if ctx ended while there were more.
func (c *Client) Pages(ctx context.Context, request Request) iter.Seq2[Page, error] {
	return pages(ctx, request, c.Page)
}

// pages asks for page after page.
func pages(ctx context.Context, request Request, ask func(context.Context, Request) (Page, error)) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for {
			page, err := ask(ctx, request)
			if !yield(page, err) || err != nil || page.Cursor == "" {
				return
			}
			if ctx.Err() != nil {
				yield(Page{}, ErrInterrupted)
				return
			}
			request = request.With("cursor", page.Cursor)
		}
	}
}

// Page sends a request and returns its answer as a page.
func (c *Client) Page(ctx context.Context, request Request) (page Page, err error) {
	if err := c.Do(ctx, request, &page.Body); err != nil {
		return Page{}, err
	}
	var end struct {
		Cursor string `json:"cursor"`
	}
	if err := json.Unmarshal(page.Body, &end); err != nil {
		return Page{}, fmt.Errorf("read the answer of %s: %w", request.Path, err)
	}
	return Page{page.Body, end.Cursor}, nil
}
