package postgres

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"strings"

	"posthaste"
	"posthaste/internal/store"
)

// term is a hashed value of a field. Matches are compared with the filter, since hashes may
// collide.
type term int64

// The fields. Their numbers are part of stored hashes.
const (
	fieldState byte = iota + 1
	fieldURL
	fieldGroup
	fieldSchedule
	fieldQueue
	fieldLabel
	fieldHost
	fieldPath
	fieldCallerIP
	fieldFlowKey
	fieldRun
	fieldWorkflowURL
	fieldWorkflow // of what belongs to any run
	fieldStatus   // of a response
	fieldCreated  // when a run was created
	fieldCallback // state of a failure callback
)

func textTerm(field byte, value string) term {
	h := fnv.New64a()
	_, _ = h.Write([]byte{field}) // never fails
	_, _ = h.Write([]byte(value))
	return term(h.Sum64())
}

func numberTerm(field byte, value int64) term { return textTerm(field, strconv.FormatInt(value, 10)) }

// messageTerm is the term of a message's events. Its upper half is the creation time, for
// locality.
func messageTerm(id posthaste.MessageID) term {
	made := uint64(id.CreatedAt().UnixMilli()) << 32
	return term(made | uint64(binary.BigEndian.Uint32(id[len(id)-4:])))
}

// messageTerms are the terms of all events of a message.
func messageTerms(m *posthaste.Message) []term {
	host, path := posthaste.HostAndPath(m.URL)
	terms := append(identityTerms(m), textTerm(fieldHost, host), textTerm(fieldPath, path))
	if bare := store.HostWithoutPort(host); bare != host {
		terms = append(terms, textTerm(fieldHost, bare))
	}
	if m.Run != nil {
		terms = append(terms, workflowTerm, textTerm(fieldRun, m.Run.ID), textTerm(fieldWorkflowURL, m.Run.URL))
	}
	return terms
}

var workflowTerm = textTerm(fieldWorkflow, "")

// identityTerms are the terms of a message in the log and in the DLQ.
func identityTerms(m *posthaste.Message) []term {
	terms := []term{messageTerm(m.ID), textTerm(fieldURL, m.URL)}
	for field, value := range map[byte]string{
		fieldGroup:    m.URLGroup,
		fieldSchedule: m.ScheduleID,
		fieldQueue:    m.Queue,
		fieldCallerIP: m.CallerIP,
		fieldFlowKey:  m.FlowControl.Key,
	} {
		if value != "" {
			terms = append(terms, textTerm(field, value))
		}
	}
	for _, label := range m.Labels {
		terms = append(terms, textTerm(fieldLabel, label))
	}
	return terms
}

// termQuery is a filter as terms: a match has a term of each list.
type termQuery [][]term

// addTerms adds the values of a field, if there are any.
func addTerms[T any](q termQuery, values []T, of func(T) term) termQuery {
	if len(values) == 0 {
		return q
	}
	terms := make([]term, len(values))
	for i, value := range values {
		terms[i] = of(value)
	}
	return append(q, terms)
}

func (q termQuery) texts(field byte, values []string) termQuery {
	return addTerms(q, values, func(v string) term { return textTerm(field, v) })
}

func (q termQuery) numbers(field byte, values []int) termQuery {
	return addTerms(q, values, func(v int) term { return numberTerm(field, int64(v)) })
}

// eventTermQuery translates a filter of events.
func eventTermQuery(f *store.EventFilter) termQuery {
	q := addTerms(nil, f.MessageIDs, messageTerm).
		texts(fieldURL, f.URLs).
		texts(fieldGroup, f.URLGroups).
		texts(fieldSchedule, f.ScheduleIDs).
		texts(fieldQueue, f.Queues).
		texts(fieldLabel, f.Labels).
		texts(fieldPath, f.Paths).
		texts(fieldCallerIP, f.CallerIPs).
		texts(fieldFlowKey, f.FlowKeys)
	q = addTerms(q, f.States, func(s posthaste.State) term { return textTerm(fieldState, string(s)) })
	q = addTerms(q, f.Hosts, func(host string) term { return textTerm(fieldHost, strings.ToLower(host)) })
	if f.Runs {
		q = append(q, []term{workflowTerm}).texts(fieldRun, f.RunIDs).texts(fieldWorkflowURL, f.WorkflowURLs)
	}
	return q
}
