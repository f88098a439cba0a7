package api

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
	"posthaste/internal/weburl"
	"posthaste/internal/workflow"
)

// notifiedView is a notified run (contract, workflows 6.5).
type notifiedView struct {
	Waiter            *waiterView         `json:"waiter,omitempty"` // nil: the event is buffered
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

// readEvent returns the event id in the path, and the body.
func (a *api) readEvent(r *request) (id string, body []byte, err error) {
	if id, err = r.eventID(); err != nil {
		return "", nil, err
	}
	body, err = r.readBody(a.options.MaxBody)
	return id, body, err
}

// notify sends an event to all its waiters.
func (a *api) notify(r *request) (answer, error) {
	eventID, event, err := a.readEvent(r)
	if err != nil {
		return answer{}, err
	}
	told, err := a.options.Workflows.Notify(r.Context(), r.user, eventID, event)
	return answer{http.StatusCreated, views(told, newNotifiedView)}, err
}

// notifyRun sends an event to one run, which may wait for it later.
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

// hookEvent is a request to a webhook as its run gets it (contract, workflows 4.7).
type hookEvent struct {
	Method string      `json:"method"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body,omitempty"` // base64
	Proto  string      `json:"proto"`
	Host   string      `json:"host"`
	URL    string      `json:"url"` // path and query as sent, in ASCII
}

// callHook sends a request to the webhook's run. The URL is the secret. Unknown runs and events
// get the same response, before the body is read, so guessing reveals nothing. Browser scripts
// may call it; their preflight is no call.
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

// findHook returns store.ErrNotFound for an unknown webhook. It holds its place at the gate only
// for the lookup, because the body may be slow.
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

// isStorable reports whether every store can search for a text; PostgreSQL rejects others.
func isStorable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

func (a *api) newHookEvent(r *request, body []byte) hookEvent {
	event := hookEvent{
		Method: r.Method,
		Header: posthaste.HeaderInJSON(wire.Incoming{Header: r.Header}.WithoutConnection()),
		Body:   body,
		URL:    r.RequestURI,
	}
	if !strings.HasPrefix(event.URL, "/") {
		event.URL = r.URL.RequestURI() // absolute, as sent to a proxy
	}
	event.URL = weburl.Escape(event.URL)
	event.Proto, event.Host = a.publicBase(r.Request)
	return event
}

// publicBase returns scheme and host as the caller used them, through trusted proxies.
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

// firstOf returns the first element of a comma-separated list.
func firstOf(list string) string {
	first, _, _ := strings.Cut(list, ",")
	return strings.TrimSpace(first)
}
