package workflow

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"posthaste"
	"posthaste/internal/store"
)

// Headers of a delivery that SDKs read (section 2.5), always under these names.
const (
	headerRunID      = "Upstash-Workflow-Runid"
	headerInit       = "Upstash-Workflow-Init"
	headerURL        = "Upstash-Workflow-Url"
	headerCreatedAt  = "Upstash-Workflow-Createdat"
	headerCallType   = "Upstash-Workflow-Calltype"
	headerSDKVersion = "Upstash-Workflow-Sdk-Version"
	headerSDK        = "Upstash-Workflow-Sdk"
	headerIsFailure  = "Upstash-Workflow-Is-Failure"
	headerFailure    = "Upstash-Workflow-Failure-Callback"
	headerLabel      = "Upstash-Label"
)

// sdkVersion is the version of the protocol.
const sdkVersion = "1"

// Prepare implements engine.Runs.
func (s *Service) Prepare(ctx context.Context, m *posthaste.Message) (*posthaste.Message, error) {
	run, err := s.options.Store.Run(ctx, m.User, m.Run.Position)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read run: %w", err)
	}
	if isObsolete(run, m) {
		return nil, nil
	}
	if m.Run.CallType == posthaste.CallRequest {
		return m, nil
	}
	prepared := *m
	prepared.Header = protocolHeader(run, m)
	if m.Run.CallType == posthaste.CallStep {
		prepared.Body, err = s.list(ctx, run, m)
	}
	return &prepared, err
}

// list returns the body of a step, nil if the SDK has to fetch it.
func (s *Service) list(ctx context.Context, run *posthaste.Run, m *posthaste.Message) ([]byte, error) {
	count := m.Run.Entry + 1
	of := listID{m.User, run.Position}
	known := s.lists.upTo(of, m.Run.Entry)
	entries, err := s.options.Store.RunEntries(ctx, m.User, run.Position, known.entries, count-known.entries)
	if err != nil {
		return nil, fmt.Errorf("read list of run: %w", err)
	}
	body := appendList(known.body, entries, m)
	if last := len(entries) - 1; known.entries+len(entries) == count && entries[last].MessageID == m.ID {
		s.lists.keep(of, list{count, slices.Clip(body)})
	}
	if s.mustFetch(run, m, len(body)) {
		return nil, nil
	}
	return append(body, ']'), nil
}

// isObsolete reports whether nobody needs the response of a message: its run has ended, or its
// SDK has triggered the run again and another message delivers the first entry (section 2.4).
func isObsolete(run *posthaste.Run, m *posthaste.Message) bool {
	if m.Run.CallType == posthaste.CallFailure {
		return false
	}
	isFirst := m.Run.CallType == posthaste.CallStep && m.Run.Entry == 0
	return !run.Active() || isFirst && m.ID != run.FirstID
}

// mustFetch reports whether the SDK has to fetch a large body (section 3.4). This is for lists of
// steps only: SDKs parse the result of a call as JSON before they would fetch it.
func (s *Service) mustFetch(run *posthaste.Run, m *posthaste.Message, size int) bool {
	features := m.Run.Features | run.Features
	return size > s.options.LazyThreshold && run.LazySDK && features.Has(posthaste.FeatureLazyFetch)
}

// protocolHeader returns the headers of a delivery to the workflow or its failure function.
func protocolHeader(run *posthaste.Run, m *posthaste.Message) http.Header {
	h := maps.Clone(m.Header)
	if h == nil {
		h = http.Header{}
	}
	h.Set(headerRunID, run.ID)
	h.Set(headerURL, run.URL)
	h.Set(headerInit, strconv.FormatBool(m.Run.CallType == posthaste.CallStep && m.Run.Entry == 0))
	h.Set(headerCreatedAt, strconv.FormatInt(run.CreatedAt.UnixMilli(), 10))
	h.Set(headerCallType, string(m.Run.CallType))
	if h.Get(headerLabel) == "" && len(run.Labels) > 0 {
		h.Set(headerLabel, joinLabels(run.Labels))
	}
	switch {
	case m.Run.CallType == posthaste.CallAnswer, h.Get(headerUnknownSDK) != "":
		h.Del(headerSDKVersion) // an SDK would take it for a step
	case m.Run.CallType == posthaste.CallStep && h.Get(headerSDKVersion) == "":
		h.Set(headerSDKVersion, sdkVersion)
	}
	return h
}

// listBody encodes a run's list for SDKs up to the delivered entry.
func listBody(entries []posthaste.RunEntry, m *posthaste.Message) []byte {
	return append(appendList(nil, entries, m), ']')
}

// entryOverhead is what an entry of a list takes besides its encoded body.
const entryOverhead = len(`{"messageId":"msg_0123456789012345678901","body":"","callType":"step"},`)

// appendList returns a copy of the beginning of an encoded list with more entries, up to the delivered
// one (section 3.2), without those that SDKs ignore and without its last bracket.
func appendList(beginning []byte, entries []posthaste.RunEntry, m *posthaste.Message) []byte {
	size := len(beginning) + len("[]")
	for _, e := range entries {
		size += base64.StdEncoding.EncodedLen(len(e.Body)) + entryOverhead
	}
	body := append(make([]byte, 0, size), beginning...)
	if len(body) == 0 {
		body = append(body, '[')
	}
	for _, e := range entries {
		if e.CallType != posthaste.CallStep {
			continue
		}
		id := e.MessageID
		if e.Index == m.Run.Entry {
			id = m.ID // an entry may have several messages
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(body, `{"messageId":"`...)
		body = append(body, id.String()...)
		body = append(body, `","body":"`...)
		body = base64.StdEncoding.AppendEncode(body, e.Body)
		body = append(body, `","callType":"step"}`...)
	}
	return body
}

// Entries returns the list of an active run, or store.ErrNotFound. It calls reserve with the
// list's size before reading it.
func (s *Service) Entries(ctx context.Context, user string, id RunID, reserve func(bytes int) error) ([]posthaste.RunEntry, error) {
	run, err := s.options.Store.LatestRun(ctx, user, id.ID)
	if err != nil {
		return nil, err
	}
	if !run.Active() || !id.names(run) {
		return nil, store.ErrNotFound
	}
	if err := reserve(run.ListBytes); err != nil {
		return nil, err
	}
	entries, err := s.options.Store.RunEntries(ctx, user, run.Position, 0, -1)
	isFirst := func(e posthaste.RunEntry) bool { return e.MessageID == run.FirstID }
	if len(entries) > 0 && !slices.ContainsFunc(entries, isFirst) {
		entries[0].MessageID = run.FirstID // SDKs look for the message that they received
	}
	return entries, err
}

// joinLabels returns labels as a header value.
func joinLabels(labels []string) string {
	return posthaste.EncodeHeaderText(strings.Join(labels, ","))
}
