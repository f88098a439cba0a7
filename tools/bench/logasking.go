package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

// available returns the pages of which a log has anything, each with no more entries than
// that: what it gets over several pages has to come in one.
func (c *logStore) available(ctx context.Context, l *lab, pages []logPage) (there []logPage, err error) {
	for _, page := range pages {
		if page.count > 0 {
			if page.count, err = c.reachable(ctx, l, page); err != nil {
				return nil, err
			}
			if page.count == 0 {
				l.note("  no entry has %s", page.name)
				continue
			}
		}
		there = append(there, page)
	}
	return there, nil
}

// reachable returns how many of the entries of a page there are, by following cursors.
func (c *logStore) reachable(ctx context.Context, l *lab, page logPage) (n int, err error) {
	params, err := page.query(c.history)
	if err != nil {
		return 0, err
	}
	for {
		var text bytes.Buffer
		if err := readLog(ctx, c.server.host+page.path, l.token, mediaJSON, params, &text); err != nil {
			return 0, err
		}
		found, cursor, err := entriesOf(text.Bytes())
		if n += found; err != nil || cursor == "" || n >= page.count {
			return min(n, page.count), err
		}
		params.Set("cursor", cursor)
	}
}

// asker returns what asks for a page of the log and makes sure that it is whole.
func (c *logStore) asker(ctx context.Context, l *lab, page logPage) asker {
	var text bytes.Buffer
	fetch := c.fetcher(ctx, l, page, mediaJSON, &text)
	return func() (time.Duration, error) {
		_, all, err := fetch()
		if err != nil {
			return 0, err
		}
		n, _, err := entriesOf(text.Bytes())
		return all, errors.Join(err, c.whole(page, n))
	}
}

// exportAsker returns what asks for the entries of a page as an export, which comes while
// it is read. What counts is the time until its first entries come.
func (c *logStore) exportAsker(ctx context.Context, l *lab, page logPage) asker {
	var text bytes.Buffer
	fetch := c.fetcher(ctx, l, page, mediaLines, &text)
	return func() (time.Duration, error) {
		first, _, err := fetch()
		if err != nil {
			return 0, err
		}
		return first, c.whole(page, bytes.Count(text.Bytes(), []byte("\n")))
	}
}

// fetcher returns what reads a page in one of its forms, and how long it took until its
// first bytes came, and until all had.
func (c *logStore) fetcher(ctx context.Context, l *lab, page logPage, media string, text *bytes.Buffer) func() (first, all time.Duration, err error) {
	var came time.Time
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { came = time.Now() }})
	params, invalid := page.query(c.history)
	return func() (first, all time.Duration, err error) {
		if invalid != nil {
			return 0, 0, invalid
		}
		text.Reset()
		began := time.Now()
		if err := readLog(ctx, c.server.host+page.path, l.token, media, params, text); err != nil {
			return 0, 0, fmt.Errorf("%s, %s: %w%s", c.name, page.name, err, c.server.lastWords())
		}
		return came.Sub(began), time.Since(began), nil
	}
}

// whole returns an error unless an answer has as many entries as its page has to have.
func (c *logStore) whole(page logPage, n int) error {
	if n == page.count {
		return nil
	}
	return fmt.Errorf("%s, %s: the page has %d entries, %d were expected", c.name, page.name, n, page.count)
}

// The forms of an answer.
const (
	mediaJSON   = "application/json"     // a page
	mediaLines  = "application/x-ndjson" // an export
	mediaEvents = "text/event-stream"    // what is followed
)

// pageClient keeps a connection for each of those that ask at the same time.
var pageClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: readers}}

// logRequest makes a request for a log, which has a host and a path.
func logRequest(ctx context.Context, log, params, token, media string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+log+"?"+params, nil)
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Accept", media)
	}
	return req, err
}

// readLog reads an answer of a log.
func readLog(ctx context.Context, log, token, media string, params url.Values, into io.Writer) error {
	req, err := logRequest(ctx, log, params.Encode(), token, media)
	if err != nil {
		return err
	}
	response, err := pageClient.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return refusal(response)
	}
	_, err = io.Copy(into, response.Body)
	return err
}

// entriesOf counts the entries of an answer, or its runs, and returns its cursor.
func entriesOf(answer []byte) (n int, cursor string, err error) {
	var page struct {
		Events []struct{} `json:"events"`
		Runs   []struct{} `json:"runs"`
		Cursor string     `json:"cursor"`
	}
	err = json.Unmarshal(answer, &page)
	return len(page.Events) + len(page.Runs), page.Cursor, err
}
