package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/store"
)

// lettersEngine is an api.Engine that has dead letters of which none is read.
type lettersEngine struct {
	fakeEngine
	letters func(query store.DeadLetterQuery) (store.DeadLetterPage, error)
	retried []int // how many were asked for at once
	large   int   // how many there is room for at once; 0: any number
	takes   time.Duration
	breaks  int // which retry fails; 0: none
}

func (e *lettersEngine) DeadLetters(_ context.Context, _ string, query store.DeadLetterQuery) (store.DeadLetterPage, error) {
	if ids := query.Filter.DeadLetterIDs; ids != nil {
		return store.DeadLetterPage{IDs: ids}, nil
	}
	return e.letters(query)
}

func (e *lettersEngine) DeadLetter(_ context.Context, _ string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error) {
	return &posthaste.DeadLetter{ID: id}, nil
}

func (e *lettersEngine) RetryDeadLetters(_ context.Context, _ string, ids []posthaste.DeadLetterID, _ posthaste.Overrides) ([]store.Retried, error) {
	time.Sleep(e.takes)
	if e.retried = append(e.retried, len(ids)); len(e.retried) == e.breaks {
		return nil, errors.New("disk on fire")
	}
	last := ids[min(len(ids), e.most())-1]
	return []store.Retried{{ID: last, Message: plainMessage}, {ID: last, Err: posthaste.Errorf(posthaste.CodeLimit, "too much")}}, nil
}

// most returns how many are retried at once, whatever is asked for.
func (e *lettersEngine) most() int { return cmp.Or(e.large, atOnce) }

func (e *lettersEngine) DeleteDeadLetters(_ context.Context, _ string, ids []posthaste.DeadLetterID) ([]posthaste.DeadLetterID, error) {
	time.Sleep(e.takes)
	return ids[:min(len(ids), e.most())], nil
}

// TestSweepCursor checks that a page that came back short, also one with nothing
// in it, leads on to the next one, within the bounds that the first one had
// (contract, messages 7).
func TestSweepCursor(t *testing.T) {
	const newest, next = posthaste.Position(5000), posthaste.Position(3000)
	var asked []store.DeadLetterQuery
	e := &lettersEngine{letters: func(query store.DeadLetterQuery) (store.DeadLetterPage, error) {
		if asked = append(asked, query); !query.Bare {
			t.Errorf("%+v asks for more than ids", query)
		}
		if query.Limit == 1 {
			return store.DeadLetterPage{IDs: []posthaste.DeadLetterID{posthaste.DeadLetterID(newest)}}, nil
		}
		return store.DeadLetterPage{More: query.Low < next, Next: next}, nil
	}}
	handler := newSurface(t, &published{}, func(o *api.Options) { o.Engine = e })
	for _, want := range []string{`{"deleted":0,"cursor":"p2bc-p3uw"}`, `{"deleted":0}`} {
		path := "/v2/dlq"
		if len(asked) > 0 {
			path += "?cursor=p2bc-p3uw"
		}
		if got := do(handler, newRequest("DELETE", path, nil)).Body.String(); got != want+"\n" {
			t.Errorf("%s answers %s, want %s", path, got, want)
		}
	}
	var ranges []string
	for _, query := range asked {
		ranges = append(ranges, fmt.Sprint(query.Low, " to ", min(query.High, newest+1), " oldest first ", query.OldestFirst))
	}
	if got, want := strings.Join(ranges, ", "), "0 to 5001 oldest first false, 0 to 5000 oldest first true, 3000 to 5000 oldest first true"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

// TestSlowSweep checks that a page which takes long ends early and leads on to what is left
// of it, and that a list is done to its end.
func TestSlowSweep(t *testing.T) {
	const ids = "1-2000,1-3000,1-4000,1-5000"
	for _, call := range []struct{ name, method, path, want string }{
		{"delete a page", "DELETE", "/v2/dlq", `{"deleted":3,"cursor":"p3uw-p5k0"}`},
		{"retry a page", "POST", "/v2/dlq/retry", `"cursor":"p3uw-p5k0"`}, // 5000 of 7200
		{"delete a list", "DELETE", "/v2/dlq?dlqIds=" + ids, `{"deleted":4}`},
		{"retry a list", "POST", "/v2/dlq/retry?dlqIds=" + ids, `"dlqId":"1-5000"`},
	} {
		t.Run(call.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &lettersEngine{large: 1, takes: 400 * time.Millisecond, letters: func(query store.DeadLetterQuery) (store.DeadLetterPage, error) {
					if query.Limit == 1 {
						return store.DeadLetterPage{IDs: []posthaste.DeadLetterID{7200}}, nil
					}
					return store.DeadLetterPage{IDs: []posthaste.DeadLetterID{2000, 3000, 4000, 5000}}, nil
				}}
				handler := newSurface(t, &published{}, func(o *api.Options) { o.Engine = e })
				if got := do(handler, newRequest(call.method, call.path, nil)).Body.String(); !strings.Contains(got, call.want) {
					t.Errorf("%s answers %s, want %s", call.path, got, call.want)
				}
			})
		})
	}
}

// TestSweepFails checks that a failure in the middle is one.
func TestSweepFails(t *testing.T) {
	calls := 0
	e := &lettersEngine{letters: func(store.DeadLetterQuery) (store.DeadLetterPage, error) {
		if calls++; calls%2 == 0 {
			return store.DeadLetterPage{}, errors.New("disk on fire")
		}
		return store.DeadLetterPage{}, nil
	}}
	handler := newSurface(t, &published{}, func(o *api.Options) { o.Engine = e })
	if got := do(handler, newRequest("DELETE", "/v2/dlq", nil)).Code; got != http.StatusInternalServerError {
		t.Errorf("status = %d", got)
	}
}

// TestRetryManyIDs checks that a long list is retried in bounded commits, and that
// one dead letter that is refused does not hide those that are not.
func TestRetryManyIDs(t *testing.T) {
	tests := []struct {
		name  string
		large int
		want  []int
	}{
		{"small", 0, []int{atOnce, atOnce, 50}},
		{"large", 70, []int{atOnce, atOnce, atOnce, 40}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := &lettersEngine{large: test.large}
			handler := newSurface(t, &published{}, func(o *api.Options) { o.Engine = e })
			var ids []string
			for i := range 2*atOnce + 50 {
				ids = append(ids, posthaste.DeadLetterID(i+1).String())
			}
			response := do(handler, newRequest("POST", "/v2/dlq/retry?dlqIds="+strings.Join(ids, ","), nil))
			retried := strings.Count(response.Body.String(), "messageId")
			if response.Code != http.StatusCreated || retried != len(test.want) || !slices.Equal(e.retried, test.want) {
				t.Errorf("retried %v: %d %s", e.retried, response.Code, response.Body)
			}
		})
	}
}

// TestRetryBreaksOff checks that what was done before a failure is answered, and what was
// not: by a cursor, or for a list one by one.
func TestRetryBreaksOff(t *testing.T) {
	var ids []posthaste.DeadLetterID
	var texts []string
	for i := range atOnce + 50 {
		ids = append(ids, posthaste.DeadLetterID(i+1))
		texts = append(texts, ids[i].String())
	}
	var asked store.DeadLetterQuery
	letters := func(query store.DeadLetterQuery) (store.DeadLetterPage, error) {
		asked = query
		return store.DeadLetterPage{IDs: ids[len(ids)-min(query.Limit, len(ids)):]}, nil
	}
	retry := func(e *lettersEngine, query string) (status int, page struct {
		Responses, Failures []any
		Cursor              string
	}) {
		handler := newSurface(t, &published{}, func(o *api.Options) { o.Engine = e })
		response := do(handler, newRequest("POST", "/v2/dlq/retry?"+query, nil))
		if err := json.Unmarshal(response.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		return response.Code, page
	}
	list, filter := "dlqIds="+strings.Join(texts, ","), "label=l"

	status, page := retry(&lettersEngine{letters: letters, breaks: 2}, list)
	if status != http.StatusCreated || len(page.Responses) != 1 || len(page.Failures) != 1+50 || page.Cursor != "" {
		t.Errorf("a list: %d %+v, want that the last 50 are told", status, page)
	}
	const large = 70 // of a page of 100, which begins behind the first 50
	status, page = retry(&lettersEngine{letters: letters, large: large, breaks: 2}, filter)
	if status != http.StatusCreated || len(page.Responses) != 1 || len(page.Failures) != 1 || page.Cursor == "" {
		t.Errorf("what matches: %d %+v, want a cursor", status, page)
	}
	retry(&lettersEngine{letters: letters}, filter+"&cursor="+page.Cursor)
	if want := posthaste.Position(ids[50+large]); asked.Low != want {
		t.Errorf("the cursor leads to %d, want %d", asked.Low, want)
	}
	if status, page = retry(&lettersEngine{letters: letters, breaks: 1}, filter); status != http.StatusInternalServerError {
		t.Errorf("nothing done: %d %+v, want the error", status, page)
	}
}

// atOnce is how many things that a call lists are changed in one commit.
const atOnce = 100

// TestPathWithABadEscape checks a path that no server lets through.
func TestPathWithABadEscape(t *testing.T) {
	r := newRequest("GET", "/v2/queues/x", nil)
	r.RequestURI = "/v2/queues/%zz"
	if got := do(newSurface(t, &published{}, nil), r).Code; got != http.StatusBadRequest {
		t.Errorf("status = %d", got)
	}
}

// TestDeadLettersCutOff checks that a client cannot take half a page for a whole
// one.
func TestDeadLettersCutOff(t *testing.T) {
	e := &lettersEngine{letters: func(store.DeadLetterQuery) (store.DeadLetterPage, error) {
		letter := &posthaste.DeadLetter{ID: 1, Message: fullMessage}
		return store.DeadLetterPage{DeadLetters: []*posthaste.DeadLetter{letter, letter}}, nil
	}}
	handler := newSurface(t, &published{}, func(o *api.Options) { o.Engine = e })
	whole := do(handler, newRequest("GET", "/v2/dlq", nil)).Body.Len()
	for _, bytes := range []int{0, 5, 100, whole / 2, whole - 1} {
		func() {
			defer func() {
				if got := recover(); got != http.ErrAbortHandler {
					t.Fatalf("after %d of %d bytes: recovered %v, want http.ErrAbortHandler", bytes, whole, got)
				}
			}()
			w := &cutWriter{ResponseRecorder: httptest.NewRecorder(), left: bytes}
			handler.ServeHTTP(w, newRequest("GET", "/v2/dlq", nil))
		}()
	}
}

// TestManyListedIDs checks that a list may be longer than a filter.
func TestManyListedIDs(t *testing.T) {
	var messages, letters []string
	for i := range 1500 {
		messages = append(messages, posthaste.MessageID{14: byte(i >> 8), 15: byte(i)}.String())
		letters = append(letters, posthaste.DeadLetterID(i+1).String())
	}
	most := 0
	engine := fakeEngine{
		Engine: &lettersEngine{},
		cancel: func(_ string, ids []posthaste.MessageID) (int, error) {
			most = max(most, len(ids))
			return len(ids), nil
		},
	}
	handler := newSurface(t, &published{}, func(o *api.Options) { o.Engine = engine })
	body := fmt.Sprintf(`{"messageIds":["%s"]}`, strings.Join(messages, `","`))
	if got := do(handler, newRequest("DELETE", "/v2/messages", strings.NewReader(body))).Body.String(); got != "{\"cancelled\":1500}\n" || most != 100 {
		t.Errorf("%s, %d at once", got, most)
	}
	body = fmt.Sprintf(`{"dlqIds":["%s"]}`, strings.Join(letters, `","`))
	if got := do(handler, newRequest("DELETE", "/v2/dlq", strings.NewReader(body))).Body.String(); got != "{\"deleted\":1500}\n" {
		t.Errorf("%s", got)
	}
}
