package api_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/engine"
	"posthaste/internal/eventlog"
	"posthaste/internal/openapi/openapitest"
	"posthaste/internal/sign"
	"posthaste/internal/store"
)

// fakeEngine is an api.Engine made of functions. What has none is not to be called.
type fakeEngine struct {
	api.Engine
	publish func(user string, p engine.Publication) ([]engine.Receipt, error)
	cancel  func(user string, ids []posthaste.MessageID) (int, error)
	message func(user string, id posthaste.MessageID) (store.Status, error)
}

func (f fakeEngine) Publish(_ context.Context, user string, p engine.Publication) ([]engine.Receipt, error) {
	return f.publish(user, p)
}

// URLGroup knows the groups that publishFake knows.
func (f fakeEngine) URLGroup(_ context.Context, _, name string) (*posthaste.URLGroup, error) {
	if name == "missing" {
		return nil, store.ErrNotFound
	}
	return &posthaste.URLGroup{Name: name}, nil
}

// CheckOverrides knows no limits.
func (fakeEngine) CheckOverrides(posthaste.Overrides) error { return nil }

func (f fakeEngine) Cancel(_ context.Context, user string, ids []posthaste.MessageID) (int, error) {
	return f.cancel(user, ids)
}

func (f fakeEngine) Message(_ context.Context, user string, id posthaste.MessageID) (store.Status, error) {
	return f.message(user, id)
}

// fakeLog is an api.Log made of a function.
type fakeLog func(user string, query store.EventQuery) (store.EventPage, error)

func (f fakeLog) Query(_ context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	page, err := f(user, query)
	if err != nil {
		return 0, false, err
	}
	return page.Visit(visit)
}

// fakeStore is a store.Log that has a page for every query.
type fakeStore func() store.EventPage

func (f fakeStore) Events(_ context.Context, _ string, _ store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	page := f()
	return page.Visit(visit)
}

// fakeKeyring names keys after their user.
type fakeKeyring struct{}

func (fakeKeyring) Keys(_ context.Context, user string) (sign.KeyPair, error) {
	return sign.KeyPair{Current: "sig_" + user + "1", Next: "sig_" + user + "2"}, nil
}

func (fakeKeyring) Rotate(_ context.Context, user string) (sign.KeyPair, error) {
	return sign.KeyPair{Current: "sig_" + user + "2", Next: "sig_" + user + "3"}, nil
}

// fakeTokens knows two tokens of the user ann and one of the user bob.
type fakeTokens struct{}

func (fakeTokens) Authenticate(presented string) (user string, readOnly, ok bool) {
	switch presented {
	case "full", "f+l/==":
		return "ann", false, true
	case "reader":
		return "ann", true, true
	case "other":
		return "bob", false, true
	default:
		return "", false, false
	}
}

// published notes what the engine was given.
type published struct {
	user         string
	publications []engine.Publication
}

// newSurface returns a handler in front of fakes that behave as their inputs
// ask: see publishFake and the messages below.
func newSurface(t *testing.T, seen *published, change func(*api.Options)) http.Handler {
	t.Helper()
	options := api.Options{
		Engine: fakeEngine{
			publish: func(user string, p engine.Publication) ([]engine.Receipt, error) {
				seen.user, seen.publications = user, append(seen.publications, p)
				return publishFake(p)
			},
			cancel:  cancelFake,
			message: messageFake,
		},
		Log:            eventlog.New(eventlog.Options{Store: fakeStore(logFake)}),
		Keyring:        fakeKeyring{},
		Authenticator:  fakeTokens{},
		MaxBody:        100,
		CheckHost:      refuseMetadata,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Logger:         slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&options)
	}
	return openapitest.Handler(t, api.New(options))
}

func refuseMetadata(host string) error {
	if host == "169.254.169.254" {
		return posthaste.Invalidf("host %q is a metadata service", host)
	}
	return nil
}

// publishFake answers by destination.
func publishFake(p engine.Publication) ([]engine.Receipt, error) {
	receipt := engine.Receipt{MessageID: plainMessage.ID, URL: p.Destination}
	again := engine.Receipt{MessageID: fullMessage.ID, URL: "https://example.com/b", Deduplicated: true}
	switch p.Destination {
	case "missing":
		return nil, posthaste.Errorf(posthaste.CodeNotFound, "topic %s not found", p.Destination)
	case "https://example.com/limit":
		return nil, posthaste.Errorf(posthaste.CodeLimit, "retries 99 is over the limit of 10")
	case "https://example.com/broken":
		return nil, errors.New("disk on fire")
	case "https://example.com/explained":
		return nil, &posthaste.Error{Code: posthaste.CodeUnavailable, Message: "writes are refused, try later", Err: errors.New("disk on fire")}
	case "https://example.com/closing":
		return nil, store.ErrClosed
	case "https://example.com/without-receipt":
		return nil, nil
	case "https://example.com/again":
		return []engine.Receipt{again}, nil
	case "all-again":
		return []engine.Receipt{again, again}, nil
	case "orders":
		receipt.URL = "https://example.com/a"
		return []engine.Receipt{receipt, again}, nil
	default:
		return []engine.Receipt{receipt}, nil
	}
}

var createdAt = time.UnixMilli(1_700_000_000_000)

func messageID(n byte) posthaste.MessageID {
	id := posthaste.MessageID{15: n}
	copy(id[:], []byte{0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00}) // createdAt
	return id
}

func retries(n int) *int { return &n }

// plainMessage has nothing that it could do without.
var plainMessage = &posthaste.Message{
	ID:        messageID(1),
	User:      "ann",
	URL:       "https://example.com",
	CreatedAt: createdAt,
	NotBefore: createdAt,
}

// fullMessage has everything.
var fullMessage = &posthaste.Message{
	ID:         messageID(2),
	User:       "ann",
	URL:        "https://example.com/b?x=1&y=<2>",
	Body:       []byte(`{"hello":"world"}`),
	CreatedAt:  createdAt,
	NotBefore:  createdAt.Add(time.Minute),
	CallerIP:   "203.0.113.9",
	Queue:      "q",
	URLGroup:   "orders",
	Endpoint:   "First endpoint",
	ScheduleID: "scd_1",
	Settings: posthaste.Settings{
		Method:      "PUT",
		Header:      http.Header{"Content-Type": {"application/json"}, "X-Trace": {"a", "b"}},
		Retries:     retries(0),
		RetryDelay:  "1000 * (1 + retried)",
		Timeout:     90 * time.Second,
		Labels:      []string{"first", "second"},
		FlowControl: posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 2, Rate: 3, Period: 24 * time.Hour}},
		Callback: &posthaste.Callback{URL: "https://example.com/callback",
			Given: http.Header{"Authorization": {"secret"}, "Upstash-Callback-Retries": {"1"}}},
		FailureCallback: &posthaste.Callback{URL: "https://example.com/failure",
			Given: http.Header{"X-Kind": {"failure"}}},
	},
}

// redactedMessage shows neither its body nor some of its headers.
var redactedMessage = &posthaste.Message{
	ID:        messageID(3),
	User:      "ann",
	URL:       "https://example.com",
	Body:      []byte("secret"),
	CreatedAt: createdAt,
	NotBefore: createdAt,
	Settings: posthaste.Settings{
		Header: http.Header{"Authorization": {"one", "two"}, "X-Open": {"shown"}},
		Redact: posthaste.Redaction{Body: true, Headers: []string{"Authorization"}},
		Callback: &posthaste.Callback{
			URL:      "https://example.com/callback",
			Settings: posthaste.Settings{Redact: posthaste.Redaction{Headers: []string{"X-Secret"}}},
			Given:    http.Header{"Authorization": {"one"}, "X-Secret": {"two"}, "X-Open": {"shown"}},
		},
		FailureCallback: &posthaste.Callback{
			URL:      "https://example.com/failure",
			Settings: posthaste.Settings{Redact: posthaste.Redaction{AllHeaders: true}},
			Given:    http.Header{"X-Anything": {"hidden"}},
		},
	},
}

// binaryMessage has a body that is no text, and a flow key with default period.
var binaryMessage = &posthaste.Message{
	ID:        messageID(4),
	User:      "ann",
	URL:       "https://example.com",
	Body:      []byte{0xff, 0x00, 0xfe},
	CreatedAt: createdAt,
	NotBefore: createdAt,
	Settings:  posthaste.Settings{FlowControl: posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Rate: 1}}},
}

var (
	cancelledID = messageID(5)
	brokenID    = messageID(6)
)

func messageFake(user string, id posthaste.MessageID) (store.Status, error) {
	for _, m := range []*posthaste.Message{plainMessage, fullMessage, redactedMessage, binaryMessage} {
		if user == m.User && id == m.ID {
			return store.Status{Message: m, State: posthaste.StateDelivered}, nil
		}
	}
	switch id {
	case cancelledID:
		return store.Status{Message: plainMessage, State: posthaste.StateCancelled}, nil
	case brokenID:
		return store.Status{}, errors.New("disk on fire")
	default:
		return store.Status{}, store.ErrNotFound
	}
}

// cancelFake cancels plainMessage, which alone has not ended.
func cancelFake(user string, ids []posthaste.MessageID) (int, error) {
	cancelled := 0
	for _, id := range ids {
		if id == brokenID {
			return 0, errors.New("disk on fire")
		}
		if user == plainMessage.User && id == plainMessage.ID {
			cancelled++
		}
	}
	return cancelled, nil
}

// logFake has an entry of each kind, and more to come.
func logFake() store.EventPage {
	position := func(ms int64) posthaste.Position {
		return posthaste.FirstPosition(createdAt.Add(time.Duration(ms) * time.Millisecond))
	}
	return store.EventPage{
		More: true,
		Next: position(-1),
		Entries: []store.Entry{
			{Message: plainMessage, Event: posthaste.Event{Position: position(9), State: posthaste.StateCancelled}},
			{Message: plainMessage, Event: posthaste.Event{Position: position(8), State: posthaste.StateCancelRequested}},
			{Message: fullMessage, Event: posthaste.Event{Position: position(7), State: posthaste.StateFailed}},
			{Message: fullMessage, Event: posthaste.Event{
				Position:       position(6),
				State:          posthaste.StateError,
				Error:          "the destination answered 503",
				NextDeliveryAt: createdAt.Add(time.Hour),
				Response:       &posthaste.Response{Status: 503, Header: http.Header{"Retry-After": {"3600"}}, Body: []byte("no")},
			}},
			{Message: fullMessage, Event: posthaste.Event{
				Position: position(5), State: posthaste.StateError, Error: "no such host"}},
			{Message: redactedMessage, Event: posthaste.Event{Position: position(4), State: posthaste.StateDelivered}},
			{Message: binaryMessage, Event: posthaste.Event{Position: position(3), State: posthaste.StateCreated}},
		},
	}
}
