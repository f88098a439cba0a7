package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// inParts is an engine whose lists have a part for each item, of which the last may fail.
type inParts struct {
	fakeEngine
	items, failAt int
	size          int // of what varies in size
}

// part returns the number of the item behind a name, and the name to go on behind.
func (e inParts) part(after string) (n int, next string, err error) {
	if after != "" {
		_, _ = fmt.Sscanf(after, "n%d", &n)
		n++
	}
	if n == e.failAt {
		return 0, "", errors.New("disk on fire")
	}
	if n < e.items-1 {
		next = fmt.Sprintf("n%d", n)
	}
	return n, next, nil
}

func listed[T any](e inParts, after string, item func(name string) T) (list store.List[T], err error) {
	n, next, err := e.part(after)
	if err == nil {
		list = store.List[T]{Items: []T{item(fmt.Sprintf("n%d", n))}, Next: next}
	}
	return list, err
}

func (e inParts) Queues(_ context.Context, _, after string) (store.List[store.QueueStatus], error) {
	return listed(e, after, func(name string) store.QueueStatus {
		return store.QueueStatus{Queue: posthaste.Queue{Name: name, Parallelism: 1}}
	})
}

func (e inParts) URLGroups(_ context.Context, _, after string) (store.List[*posthaste.URLGroup], error) {
	return listed(e, after, func(name string) *posthaste.URLGroup {
		return &posthaste.URLGroup{Name: name, Endpoints: []posthaste.Endpoint{{URL: "https://example.com"}}}
	})
}

func (e inParts) FlowKeys(_ context.Context, _, _, after string) (store.List[store.FlowStatus], error) {
	return listed(e, after, func(name string) store.FlowStatus {
		return store.FlowStatus{FlowKey: posthaste.FlowKey{Key: name}}
	})
}

func (e inParts) Schedules(_ context.Context, _, after string) (store.List[engine.ScheduleStatus], error) {
	return listed(e, after, func(name string) engine.ScheduleStatus {
		return engine.ScheduleStatus{Schedule: &posthaste.Schedule{
			ID: name, Cron: "* * * * *", Destination: "https://example.com", Body: make([]byte, e.size), CreatedAt: createdAt,
		}}
	})
}

// lists are the routes that answer with all of a list.
var lists = []string{"/v2/queues", "/v2/topics", "/v2/flowControl", "/v2/schedules"}

// TestListsHoldWhatTheyTake has memory for a part of a list reserved before one is read, what it
// takes held while it is written, and all given back behind it: no reader holds more than
// one part, however many there are.
func TestListsHoldWhatTheyTake(t *testing.T) {
	const items, size = 20, 64 << 10
	for _, path := range lists {
		t.Run(path, func(t *testing.T) {
			gate := &notingGate{}
			handler := newSurface(t, &published{}, func(o *api.Options) {
				o.PageBytes, o.Engine = gate, inParts{o.Engine.(fakeEngine), items, -1, size}
			})
			w := &watchedWriter{ResponseRecorder: httptest.NewRecorder(), gate: gate}
			handler.ServeHTTP(w, newRequest(http.MethodGet, path, nil))
			var all []json.RawMessage
			if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || w.Code != http.StatusOK || len(all) != items {
				t.Fatalf("%d, %d items, %v; want %d", w.Code, len(all), err, items)
			}
			switch {
			case gate.most != store.PageBytes:
				t.Errorf("%d bytes were held to read it, want %d", gate.most, store.PageBytes)
			case w.held == 0 || w.held > size+1024:
				t.Errorf("%d bytes were held while a part was written", w.held)
			case gate.held != 0:
				t.Errorf("%d bytes are held afterwards", gate.held)
			}
		})
	}
}

// TestListsThatFail are cut, if the client has a part of them: what it has is not all.
func TestListsThatFail(t *testing.T) {
	for _, path := range lists {
		for failAt, want := range map[int]int{0: http.StatusInternalServerError, 1: 0} {
			t.Run(fmt.Sprintf("%s part %d", path, failAt), func(t *testing.T) {
				gate := &notingGate{}
				handler := newSurface(t, &published{}, func(o *api.Options) {
					o.PageBytes, o.Engine = gate, inParts{o.Engine.(fakeEngine), 3, failAt, 1}
				})
				code := func() (code int) {
					defer func() {
						if recover() == http.ErrAbortHandler {
							code = 0
						}
					}()
					return do(handler, newRequest(http.MethodGet, path, nil)).Code
				}()
				if code != want || gate.held != 0 {
					t.Errorf("%d with %d bytes held afterwards, want %d and 0", code, gate.held, want)
				}
			})
		}
	}
}
