package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// Page is one answer of several to the same request.
type Page struct {
	Body   json.RawMessage
	Cursor string // of the next page, "" if this is the last
}

// Pages sends a request again and again, each time with the cursor of the answer
// before, until there is none, and yields the answers. An error is the last thing
// it yields.
func (c *Client) Pages(ctx context.Context, request Request) iter.Seq2[Page, error] {
	return pages(ctx, request, c.page)
}

// pages asks for page after page.
func pages(ctx context.Context, request Request, ask func(context.Context, Request) (Page, error)) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for {
			page, err := ask(ctx, request)
			if !yield(page, err) || err != nil || page.Cursor == "" {
				return
			}
			request = request.With("cursor", page.Cursor)
		}
	}
}

func (c *Client) page(ctx context.Context, request Request) (page Page, err error) {
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

// Lines sends a request for a list of JSON values of any length, one a line, and
// yields them as they come. A value is valid until the next one. An error is the
// last thing it yields: without one, the list is whole.
func (c *Client) Lines(ctx context.Context, request Request) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		response, err := c.open(ctx, request, "application/x-ndjson")
		if err != nil {
			yield(nil, err)
			return
		}
		defer response.Body.Close()
		lines := newLineReader(response.Body)
		for {
			line, err := lines.next()
			if err == io.EOF && len(line) == 0 {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("the list broke off: %w", unexpected(err)))
				return
			}
			if !yield(line, nil) {
				return
			}
		}
	}
}

// unexpected returns what the end is in the middle of something.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
