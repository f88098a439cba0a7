package record

import (
	"slices"
	"time"

	"posthaste"
)

// message is the stored form of a posthaste.Message.
type message struct {
	URL        string   `cbor:"1,keyasint,omitempty"`
	Body       []byte   `cbor:"2,keyasint,omitempty"`
	CreatedAt  int64    `cbor:"3,keyasint,omitempty"`
	NotBefore  int64    `cbor:"4,keyasint,omitempty"` // none: CreatedAt
	CallerIP   string   `cbor:"5,keyasint,omitempty"`
	Queue      string   `cbor:"6,keyasint,omitempty"`
	URLGroup   string   `cbor:"7,keyasint,omitempty"`
	Endpoint   string   `cbor:"8,keyasint,omitempty"`
	ScheduleID string   `cbor:"9,keyasint,omitempty"`
	Settings   settings `cbor:"10,keyasint"`
	SourceID   []byte   `cbor:"11,keyasint,omitempty"`
	Run        *runLink `cbor:"12,keyasint,omitempty"`
}

// settings is the stored form of posthaste.Settings.
type settings struct {
	Method          string        `cbor:"1,keyasint,omitempty"`
	Header          header        `cbor:"2,keyasint,omitempty"`
	Retries         *int          `cbor:"3,keyasint,omitempty"` // 0 is not none
	RetryDelay      string        `cbor:"4,keyasint,omitempty"`
	Timeout         time.Duration `cbor:"5,keyasint,omitempty"`
	Labels          []string      `cbor:"6,keyasint,omitempty"`
	FlowKey         string        `cbor:"7,keyasint,omitempty"`
	FlowParallelism int           `cbor:"8,keyasint,omitempty"`
	FlowRate        int           `cbor:"9,keyasint,omitempty"`
	FlowPeriod      time.Duration `cbor:"10,keyasint,omitempty"`
	Callback        *callback     `cbor:"11,keyasint,omitempty"`
	FailureCallback *callback     `cbor:"12,keyasint,omitempty"`
	Dialect         uint8         `cbor:"13,keyasint,omitempty"`
	RedactBody      bool          `cbor:"14,keyasint,omitempty"`
	RedactAll       bool          `cbor:"15,keyasint,omitempty"`
	RedactHeaders   []string      `cbor:"16,keyasint,omitempty"`
	Trace           string        `cbor:"17,keyasint,omitempty"`
}

// callback is the stored form of a posthaste.Callback.
type callback struct {
	URL      string        `cbor:"1,keyasint,omitempty"`
	Delay    time.Duration `cbor:"2,keyasint,omitempty"`
	Given    header        `cbor:"3,keyasint,omitempty"`
	Settings settings      `cbor:"4,keyasint"`
}

// usualOverhead is the usual size of a record without its body.
const usualOverhead = 512

// AppendMessage appends the record of a message without id and user.
func AppendMessage(dst []byte, m *posthaste.Message) []byte {
	rec := message{
		URL:        m.URL,
		Body:       m.Body,
		CreatedAt:  toMilli(m.CreatedAt),
		NotBefore:  toMilli(m.NotBefore),
		CallerIP:   m.CallerIP,
		Queue:      m.Queue,
		URLGroup:   m.URLGroup,
		Endpoint:   m.Endpoint,
		ScheduleID: m.ScheduleID,
		SourceID:   optionalID(m.SourceID),
		Run:        newRunLink(m.Run),
		Settings:   newSettings(&m.Settings),
	}
	if rec.NotBefore == rec.CreatedAt {
		rec.NotBefore = 0
	}
	return encode(slices.Grow(dst, len(m.Body)+usualOverhead), &rec)
}

// DecodeMessage decodes a record of AppendMessage. Empty bodies, headers and lists become nil.
func DecodeMessage(id posthaste.MessageID, user string, data []byte) (m *posthaste.Message, err error) {
	var rec message
	if q := newQuick(data); !q.message(&rec) {
		if rec, err = decodeAny[message](data); err != nil {
			return nil, err
		}
	}
	if rec.NotBefore == 0 {
		rec.NotBefore = rec.CreatedAt
	}
	m = &posthaste.Message{
		ID:         id,
		User:       user,
		URL:        rec.URL,
		CreatedAt:  fromMilli(rec.CreatedAt),
		NotBefore:  fromMilli(rec.NotBefore),
		CallerIP:   rec.CallerIP,
		Queue:      rec.Queue,
		URLGroup:   rec.URLGroup,
		Endpoint:   rec.Endpoint,
		ScheduleID: rec.ScheduleID,
		Run:        rec.Run.restore(),
	}
	if len(rec.Body) > 0 {
		m.Body = rec.Body
	}
	if m.SourceID, err = restoreID(rec.SourceID); err != nil {
		return nil, err
	}
	if err := rec.Settings.restore(&m.Settings); err != nil {
		return nil, err
	}
	return m, nil
}

func newSettings(s *posthaste.Settings) settings {
	return settings{
		Method:          s.Method,
		Header:          newHeader(s.Header),
		Retries:         s.Retries,
		RetryDelay:      s.RetryDelay,
		Timeout:         s.Timeout,
		Labels:          s.Labels,
		FlowKey:         s.FlowControl.Key,
		FlowParallelism: s.FlowControl.Parallelism,
		FlowRate:        s.FlowControl.Rate,
		FlowPeriod:      s.FlowControl.Period,
		Callback:        newCallback(s.Callback),
		FailureCallback: newCallback(s.FailureCallback),
		Dialect:         uint8(s.Dialect),
		RedactBody:      s.Redact.Body,
		RedactAll:       s.Redact.AllHeaders,
		RedactHeaders:   s.Redact.Headers,
		Trace:           string(s.Trace),
	}
}

func (rec *settings) restore(s *posthaste.Settings) (err error) {
	*s = posthaste.Settings{
		Method:     rec.Method,
		Retries:    rec.Retries,
		RetryDelay: rec.RetryDelay,
		Timeout:    rec.Timeout,
		Labels:     rec.Labels,
		FlowControl: posthaste.FlowControl{
			Key: rec.FlowKey,
			FlowLimit: posthaste.FlowLimit{
				Parallelism: rec.FlowParallelism,
				Rate:        rec.FlowRate,
				Period:      rec.FlowPeriod,
			},
		},
		Redact: posthaste.Redaction{
			Body:       rec.RedactBody,
			AllHeaders: rec.RedactAll,
			Headers:    rec.RedactHeaders,
		},
		Dialect: posthaste.Dialect(rec.Dialect),
		Trace:   posthaste.TraceContext(rec.Trace),
	}
	if s.Header, err = rec.Header.restore(); err != nil {
		return err
	}
	if s.Callback, err = rec.Callback.restore(); err != nil {
		return err
	}
	s.FailureCallback, err = rec.FailureCallback.restore()
	return err
}

func newCallback(c *posthaste.Callback) *callback {
	if c == nil {
		return nil
	}
	return &callback{
		URL:      c.URL,
		Delay:    c.Delay,
		Given:    newHeader(c.Given),
		Settings: newSettings(&c.Settings),
	}
}

func (rec *callback) restore() (*posthaste.Callback, error) {
	if rec == nil {
		return nil, nil
	}
	c := &posthaste.Callback{URL: rec.URL, Delay: rec.Delay}
	if err := rec.Settings.restore(&c.Settings); err != nil {
		return nil, err
	}
	var err error
	c.Given, err = rec.Given.restore()
	return c, err
}
