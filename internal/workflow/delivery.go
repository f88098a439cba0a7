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

// The headers of a delivery that tell an SDK about its run (section 2.5). They are
// the protocol of the SDKs and always have these names.
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

// sdkVersion is the version of the protocol that is spoken here.
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
	if isIdle(run, m) {
		return nil, nil
	}
	if m.Run.CallType == posthaste.CallRequest {
		return m, nil
	}
	prepared := *m
	prepared.Header = protocolHeader(run, m)
	if m.Run.CallType == posthaste.CallStep {
		entries, err := s.options.Store.RunEntries(ctx, m.User, run.Position, m.Run.Entry+1)
		if err != nil {
			return nil, fmt.Errorf("read list of run: %w", err)
		}
		prepared.Body = listBody(entries, m)
	}
	if s.fetched(run, m, len(prepared.Body)) {
		prepared.Body = nil
	}
	return &prepared, nil
}

// isIdle reports whether nobody waits any more for what a message is answered: its run
// has ended, or another message delivers the first entry because the SDK has triggered
// the run once more (section 2.4).
func isIdle(run *posthaste.Run, m *posthaste.Message) bool {
	if m.Run.CallType == posthaste.CallFailure {
		return false
	}
	isFirst := m.Run.CallType == posthaste.CallStep && m.Run.Entry == 0
	return !run.Active() || isFirst && m.ID != run.FirstID
}

// fetched reports whether a body is so large that the SDK is made to fetch it
// (section 3.4). That is for lists of steps only: SDKs are meant to fetch the answer
// of a call too, but read it as JSON before they do.
func (s *Service) fetched(run *posthaste.Run, m *posthaste.Message, size int) bool {
	features := m.Run.Features | run.Features
	return size > s.options.LazyThreshold && run.LazySDK &&
		m.Run.CallType == posthaste.CallStep && features.Has(posthaste.FeatureLazyFetch)
}

// protocolHeader returns the headers of a delivery to the workflow or to its failure
// function.
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
		h.Del(headerSDKVersion) // to an SDK it would mean a step
	case m.Run.CallType == posthaste.CallStep && h.Get(headerSDKVersion) == "":
		h.Set(headerSDKVersion, sdkVersion)
	}
	return h
}

// listBody writes a run's list as SDKs read it, up to the entry that is delivered
// (section 3.2). What they pass over is left out.
func listBody(entries []posthaste.RunEntry, m *posthaste.Message) []byte {
	size := 2
	for _, e := range entries {
		size += base64.StdEncoding.EncodedLen(len(e.Body)) + 80
	}
	body := append(make([]byte, 0, size), '[')
	for _, e := range entries {
		if e.CallType != posthaste.CallStep {
			continue
		}
		id := e.MessageID
		if e.Index == m.Run.Entry {
			id = m.ID // an entry may be delivered by several messages
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
	return append(body, ']')
}

// Entries returns the list of the run that goes on under an id, or
// store.ErrNotFound. Before it reads the list it asks for room for so many bytes.
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
	entries, err := s.options.Store.RunEntries(ctx, user, run.Position, -1)
	isFirst := func(e posthaste.RunEntry) bool { return e.MessageID == run.FirstID }
	if len(entries) > 0 && !slices.ContainsFunc(entries, isFirst) {
		entries[0].MessageID = run.FirstID // it was delivered again; SDKs look for what they were delivered
	}
	return entries, err
}

// joinLabels writes labels as the value of a header.
func joinLabels(labels []string) string {
	return posthaste.EncodeHeaderText(strings.Join(labels, ","))
}
