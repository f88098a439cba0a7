// Package client speaks to a Posthaste server over its HTTP API, for the command
// line: it finds the server, sends requests that are let in, follows cursors, and
// reads streams.
//
// It knows the form of answers that all routes share, errors and cursors, and
// nothing of what is in them. It relies on the HTTP API alone, as any other client
// does.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"posthaste"
)

// Server is where a server is, and the token that lets one in.
type Server struct{ URL, Token string }

// Find returns the server that is meant: what is given counts, then POSTHASTE_URL
// and POSTHASTE_TOKEN, then QSTASH_URL and QSTASH_TOKEN, then otherwise (contract,
// decision 27). URL and token are found one by one; an empty value counts as none.
func Find(given Server, getenv func(string) string, otherwise Server) Server {
	return Server{
		URL:   cmp.Or(given.URL, getenv("POSTHASTE_URL"), getenv("QSTASH_URL"), otherwise.URL),
		Token: cmp.Or(given.Token, getenv("POSTHASTE_TOKEN"), getenv("QSTASH_TOKEN"), otherwise.Token),
	}
}

// Options configure a Client. Server is required.
type Options struct {
	Server    Server
	UserAgent string
	Transport http.RoundTripper // nil: one that uses the proxy of the environment

	// Lost is called when a stream was interrupted, with the reason and when the next attempt to
	// continue will be. It may be nil.
	Lost func(err error, wait time.Duration)
}

// Client calls one server. It may be used by many goroutines.
type Client struct {
	options Options
	base    string // of all URLs, without a slash at the end
	http    *http.Client
}

// headTime is how long a server may take to begin its answer.
const headTime = time.Minute

// New returns a client, or an Error with CodeInvalid when the server's URL is none.
func New(options Options) (*Client, error) {
	base, err := url.Parse(options.Server.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, posthaste.Invalidf("url %.200q is not that of a server: give one such as http://127.0.0.1:8080", options.Server.URL)
	}
	if base.RawQuery != "" || base.Fragment != "" {
		return nil, posthaste.Invalidf("url %.200q has more than a scheme, a host and a path", options.Server.URL)
	}
	if options.Transport == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.ResponseHeaderTimeout = headTime
		options.Transport = transport
	}
	if options.Lost == nil {
		options.Lost = func(error, time.Duration) {}
	}
	return &Client{
		options: options,
		base:    strings.TrimRight(base.String(), "/"),
		http:    &http.Client{Transport: options.Transport, CheckRedirect: stay},
	}, nil
}

// stay follows no redirect: it would turn a POST into a GET, and take the token
// somewhere else.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Request is a call of the API. The zero value of a field is for what it does not
// have.
type Request struct {
	Method string // "": GET
	Path   string // from /v2 on, escaped
	Query  url.Values
	Header http.Header
	Body   any // bytes are sent as they are, anything else as JSON
}

// With returns a copy of the request with a parameter.
func (r Request) With(name, value string) Request {
	query := url.Values{}
	maps.Copy(query, r.Query)
	query.Set(name, value)
	r.Query = query
	return r
}

// StatusError is an answer that is no success.
type StatusError struct {
	Status  int
	Message string // what the server says, a sentence
}

// Error returns the status and the sentence.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answers %d: %s", e.Status, e.Message)
}

// Do sends a request and decodes the answer, which is JSON, into answer; nil is for
// an answer that does not matter. An answer that is no success is a *StatusError.
func (c *Client) Do(ctx context.Context, request Request, answer any) error {
	response, err := c.send(ctx, request, "application/json")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("read the answer of %s: %w: is it a Posthaste server?", request.Path, err)
	}
	return nil
}

// send sends a request and returns the answer if it is a success. Its body is to be
// closed.
func (c *Client) send(ctx context.Context, request Request, accept string) (*http.Response, error) {
	r, err := c.newRequest(ctx, request)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	response, err := c.http.Do(r)
	if err != nil {
		return nil, c.unanswered(err)
	}
	if response.StatusCode/100 != 2 {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response, nil
}

// open sends a request for a stream of a media type and returns the answer, which
// may be that there is nothing. Its body is to be closed.
func (c *Client) open(ctx context.Context, request Request, media string) (*http.Response, error) {
	response, err := c.send(ctx, request, media)
	if err != nil || response.StatusCode == http.StatusNoContent {
		return response, err
	}
	answered, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if answered != media {
		response.Body.Close()
		return nil, &StatusError{response.StatusCode, fmt.Sprintf("%q and not %q: does it have this stream?", answered, media)}
	}
	return response, nil
}

func (c *Client) newRequest(ctx context.Context, request Request) (*http.Request, error) {
	body, media := request.Body, ""
	if _, isBytes := body.([]byte); body != nil && !isBytes {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body, media = encoded, "application/json"
	}
	content, _ := body.([]byte)
	target := c.base + request.Path
	if len(request.Query) > 0 {
		target += "?" + request.Query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, request.Method, target, bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	maps.Copy(r.Header, request.Header)
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	if c.options.UserAgent != "" {
		r.Header.Set("User-Agent", c.options.UserAgent)
	}
	r.Header.Set("Authorization", "Bearer "+c.options.Server.Token)
	return r, nil
}

// ErrInterrupted says that something was not gone on with, because the context ended.
var ErrInterrupted = errors.New("interrupted")

// unanswered says that there was no answer, and why. The URL of the request, which
// the error names, is left out: people know the server by its own.
func (c *Client) unanswered(err error) error {
	if errors.Is(err, context.Canceled) {
		return ErrInterrupted
	}
	if called, ok := errors.AsType[*url.Error](err); ok {
		err = called.Err
	}
	return fmt.Errorf("no answer from %s: %w", c.base, err)
}

// refusal reads the error in an answer.
func refusal(response *http.Response) error {
	const enough = 64 << 10
	var body struct {
		Error string `json:"error"`
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, enough)) // what came is better than nothing
	if err := json.Unmarshal(text, &body); err != nil || body.Error == "" {
		body.Error = http.StatusText(response.StatusCode) + ", and no more: is it a Posthaste server?"
	}
	return &StatusError{Status: response.StatusCode, Message: body.Error}
}
