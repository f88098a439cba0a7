package api

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/weburl"
	"posthaste/internal/workflow"
)

// notifiedView tells of a run that was given an event (contract, workflows 6.5).
type notifiedView struct {
	Waiter            *waiterView         `json:"waiter,omitempty"` // nil: the event is kept for the run
	MessageID         posthaste.MessageID `json:"messageId"`
	WorkflowRunID     string              `json:"workflowRunId"`
	WorkflowCreatedAt int64               `json:"workflowCreatedAt"` // Unix ms
}

func newNotifiedView(told workflow.Notified) notifiedView {
	view := notifiedView{
		MessageID:         told.MessageID,
		WorkflowRunID:     told.Run.ID,
		WorkflowCreatedAt: told.Run.CreatedAt.UnixMilli(),
	}
	if told.Waiter != nil {
		waiter := newWaiterView(told.Waiter)
		view.Waiter = &waiter
	}
	return view
}

// readEvent returns the id of an event, which is in the path, and the body.
func (a *api) readEvent(r *request) (id string, body []byte, err error) {
	if id, err = r.eventID(); err != nil {
		return "", nil, err
	}
	body, err = r.readBody(a.options.MaxBody)
	return id, body, err
}

// notify gives an event to everything that waits for it.
func (a *api) notify(r *request) (answer, error) {
	eventID, event, err := a.readEvent(r)
	if err != nil {
		return answer{}, err
	}
	told, err := a.options.Workflows.Notify(r.Context(), r.user, eventID, event)
	return answer{http.StatusCreated, views(told, newNotifiedView)}, err
}

// notifyRun gives an event to one run, which may come to wait for it only later.
func (a *api) notifyRun(r *request) (answer, error) {
	eventID, event, err := a.readEvent(r)
	if err != nil {
		return answer{}, err
	}
	runID := r.pathText("run")
	told, err := a.options.Workflows.NotifyRun(r.Context(), r.user, runID, eventID, event)
	if errors.Is(err, store.ErrNotFound) {
		err = noActiveRun(runID)
	}
	return answer{http.StatusCreated, newNotifiedView(told)}, err
}

// hookEvent is the event that a request to a webhook is for its run: enough to make
// the request anew (contract, workflows 4.7).
type hookEvent struct {
	Method string      `json:"method"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body,omitempty"` // base64
	Proto  string      `json:"proto"`
	Host   string      `json:"host"`
	URL    string      `json:"url"` // path and query, as they were sent, in ASCII
}

// callHook gives a request to the run that made the webhook. It needs no token: who
// knows the URL may call it. Whoever guesses learns nothing, and is not listened to: an
// unknown run and an unknown event are answered alike, before the body is read.
//
// Scripts of web pages may call it, too. What a browser asks before that is no call.
func (a *api) callHook(r *request) (answer, error) {
	if IsPreflight(r.Request) {
		return answer{body: http.HandlerFunc(AnswerPreflight)}, nil
	}
	AllowOrigins(r.writer.Header())
	eventID, err := r.eventID()
	if err != nil {
		return answer{}, err
	}
	hook := workflow.Hook{User: r.pathText("user"), RunID: r.pathText("run"), EventID: eventID}
	if err := a.findHook(r, hook); err != nil {
		return answer{}, orNoHook(err)
	}
	body, err := r.readBody(a.options.MaxBody)
	if err != nil {
		return answer{}, err
	}
	event := bytes.TrimSuffix(encodeJSON(a.newHookEvent(r, body)), []byte("\n"))
	return ok(struct{}{}), orNoHook(a.options.Workflows.CallHook(r.Context(), hook, event))
}

// findHook returns store.ErrNotFound for a webhook that cannot be called. To look takes
// a place among those who work, which a slow body must not keep.
func (a *api) findHook(r *request, hook workflow.Hook) error {
	if len(hook.User) > posthaste.MaxUserIDLen || !isStorable(hook.User) || !isStorable(hook.RunID) || !isStorable(hook.EventID) {
		return store.ErrNotFound
	}
	if err := r.work(); err != nil {
		return err
	}
	defer r.leave()
	return a.options.Workflows.FindHook(r.Context(), hook)
}

func orNoHook(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return posthaste.Errorf(posthaste.CodeNotFound, "there is no webhook at this URL: its run has ended, or no run created it")
	}
	return err
}

// isStorable reports whether every store can look for a text: PostgreSQL refuses others.
func isStorable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

func (a *api) newHookEvent(r *request, body []byte) hookEvent {
	event := hookEvent{
		Method: r.Method,
		Header: posthaste.HeaderInJSON(incoming{header: r.Header}.withoutConnection()),
		Body:   body,
		URL:    r.RequestURI,
	}
	if !strings.HasPrefix(event.URL, "/") {
		event.URL = r.URL.RequestURI() // absolute, as a forward proxy is asked
	}
	event.URL = weburl.Escape(event.URL)
	event.Proto, event.Host = a.publicBase(r.Request)
	return event
}

// publicBase returns how the caller addressed this server. Behind a trusted proxy that
// is what the proxy was asked for.
func (a *api) publicBase(r *http.Request) (proto, host string) {
	proto, host = "http", r.Host
	if r.TLS != nil {
		proto = "https"
	}
	if addr, ok := parseAddr(r.RemoteAddr); !ok || !a.isTrusted(addr) {
		return proto, host
	}
	if forwarded := firstOf(r.Header.Get("X-Forwarded-Proto")); forwarded == "http" || forwarded == "https" {
		proto = forwarded
	}
	if forwarded := firstOf(r.Header.Get("X-Forwarded-Host")); forwarded != "" {
		host = forwarded
	}
	return proto, host
}

// firstOf returns the first element of a list with commas.
func firstOf(list string) string {
	first, _, _ := strings.Cut(list, ",")
	return strings.TrimSpace(first)
}
