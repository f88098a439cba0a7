package store

import (
	"encoding/base64"
	"net/http"

	"posthaste"
)

// PageBytes is the default size limit of a page, as counted by Entry.Size and the like. A larger
// item has a page of its own.
const PageBytes = 16 << 20

// PageBudget counts the bytes of a page.
type PageBudget struct {
	limit, taken int
}

// NewPageBudget returns the budget of an empty page. A limit of 0 means PageBytes.
func NewPageBudget(limit int) PageBudget {
	if limit == 0 {
		limit = PageBytes
	}
	return PageBudget{limit: limit}
}

// Left returns the bytes left.
func (r *PageBudget) Left() int { return max(0, r.limit-r.taken) }

// Take adds an item and reports whether it fits; the first one always does.
func (r *PageBudget) Take(size int) bool {
	if r.taken > 0 && r.taken+size > r.limit {
		return false
	}
	r.taken += size
	return true
}

// Size returns the bytes of the entry that depend on user data.
func (e *Entry) Size() int { return e.MessageSize + len(e.Error) + ResponseSize(e.Response) }

// DeadLetterSize is Entry.Size for a dead letter.
func DeadLetterSize(d *posthaste.DeadLetter) int {
	return MessageSize(d.Message) + len(d.Error) + ResponseSize(d.Response)
}

// RunSize is Entry.Size for a run, without its list.
func RunSize(run *posthaste.Run) int {
	n := len(run.URL) + settingsSize(&run.Settings)
	if run.Result != nil {
		n += len(*run.Result)
	}
	if run.Reported != nil {
		n += len(run.Reported.URL) + len(run.Reported.Error) + ResponseSize(run.Reported.Response)
	}
	return n
}

// MessageSize is Entry.Size for a message.
func MessageSize(m *posthaste.Message) int {
	return len(m.Body) + len(m.URL) + settingsSize(&m.Settings)
}

// DeliverySize returns the bytes of memory that an attempt takes. A step delivers its run's list,
// in base64.
func DeliverySize(m *posthaste.Message) int {
	n := MessageSize(m)
	if m.Run != nil && m.Run.CallType == posthaste.CallStep {
		n += base64.StdEncoding.EncodedLen(m.Run.ListBytes)
	}
	return n
}

// ResponseSize is Entry.Size for a response, 0 for nil.
func ResponseSize(r *posthaste.Response) int {
	if r == nil {
		return 0
	}
	return len(r.Body) + headerSize(r.Header)
}

func settingsSize(s *posthaste.Settings) int {
	n := headerSize(s.Header)
	for _, label := range s.Labels {
		n += len(label)
	}
	for _, c := range []*posthaste.Callback{s.Callback, s.FailureCallback} {
		if c != nil {
			n += len(c.URL) + settingsSize(&c.Settings) + headerSize(c.Given)
		}
	}
	return n
}

func headerSize(header http.Header) (n int) {
	for name, values := range header {
		n += len(name)
		for _, value := range values {
			n += len(value)
		}
	}
	return n
}
