package record

import (
	"time"

	"posthaste"
)

// queue is the stored form of a posthaste.Queue.
type queue struct {
	Parallelism int   `cbor:"1,keyasint,omitempty"`
	Paused      bool  `cbor:"2,keyasint,omitempty"`
	CreatedAt   int64 `cbor:"3,keyasint,omitempty"`
	UpdatedAt   int64 `cbor:"4,keyasint,omitempty"`
}

// AppendQueue appends the record of a queue without its name.
func AppendQueue(dst []byte, q *posthaste.Queue) []byte {
	return encode(dst, &queue{
		Parallelism: q.Parallelism,
		Paused:      q.Paused,
		CreatedAt:   toMilli(q.CreatedAt),
		UpdatedAt:   toMilli(q.UpdatedAt),
	})
}

// DecodeQueue decodes a record of AppendQueue.
func DecodeQueue(name string, data []byte) (*posthaste.Queue, error) {
	var rec queue
	if err := decode(data, &rec); err != nil {
		return nil, err
	}
	return &posthaste.Queue{
		Name:        name,
		Parallelism: rec.Parallelism,
		Paused:      rec.Paused,
		CreatedAt:   fromMilli(rec.CreatedAt),
		UpdatedAt:   fromMilli(rec.UpdatedAt),
	}, nil
}

// urlGroup is the stored form of a posthaste.URLGroup. Endpoints alternate name and URL.
type urlGroup struct {
	Endpoints []string `cbor:"1,keyasint,omitempty"`
	Headers   header   `cbor:"2,keyasint,omitempty"`
	CreatedAt int64    `cbor:"3,keyasint,omitempty"`
	UpdatedAt int64    `cbor:"4,keyasint,omitempty"`
}

// AppendURLGroup appends the record of a URL group without its name.
func AppendURLGroup(dst []byte, g *posthaste.URLGroup) []byte {
	rec := urlGroup{
		Headers:   newHeader(g.Headers),
		CreatedAt: toMilli(g.CreatedAt),
		UpdatedAt: toMilli(g.UpdatedAt),
	}
	for _, e := range g.Endpoints {
		rec.Endpoints = append(rec.Endpoints, e.Name, e.URL)
	}
	return encode(dst, &rec)
}

// DecodeURLGroup decodes a record of AppendURLGroup.
func DecodeURLGroup(name string, data []byte) (*posthaste.URLGroup, error) {
	var rec urlGroup
	if err := decode(data, &rec); err != nil {
		return nil, err
	}
	if len(rec.Endpoints)%2 != 0 {
		return nil, errEndpoints
	}
	headers, err := rec.Headers.restore()
	if err != nil {
		return nil, err
	}
	g := &posthaste.URLGroup{
		Name:      name,
		Headers:   headers,
		CreatedAt: fromMilli(rec.CreatedAt),
		UpdatedAt: fromMilli(rec.UpdatedAt),
	}
	for i := 0; i < len(rec.Endpoints); i += 2 {
		g.Endpoints = append(g.Endpoints, posthaste.Endpoint{Name: rec.Endpoints[i], URL: rec.Endpoints[i+1]})
	}
	return g, nil
}

// schedule is the stored form of a posthaste.Schedule.
type schedule struct {
	Cron         string        `cbor:"1,keyasint,omitempty"`
	Destination  string        `cbor:"2,keyasint,omitempty"`
	Queue        string        `cbor:"3,keyasint,omitempty"`
	Body         []byte        `cbor:"4,keyasint,omitempty"`
	Delay        time.Duration `cbor:"5,keyasint,omitempty"`
	CallerIP     string        `cbor:"6,keyasint,omitempty"`
	CreatedAt    int64         `cbor:"7,keyasint,omitempty"`
	Paused       bool          `cbor:"8,keyasint,omitempty"`
	LastAt       int64         `cbor:"9,keyasint,omitempty"`
	NextAt       int64         `cbor:"10,keyasint,omitempty"`
	LastMessages [][]byte      `cbor:"11,keyasint,omitempty"`
	Error        string        `cbor:"12,keyasint,omitempty"`
	Settings     settings      `cbor:"13,keyasint"`
}

// AppendSchedule appends the record of a schedule without id and user.
func AppendSchedule(dst []byte, s *posthaste.Schedule) []byte {
	rec := schedule{
		Cron:        s.Cron,
		Destination: s.Destination,
		Queue:       s.Queue,
		Body:        s.Body,
		Delay:       s.Delay,
		CallerIP:    s.CallerIP,
		CreatedAt:   toMilli(s.CreatedAt),
		Paused:      s.Paused,
		LastAt:      toMilli(s.LastAt),
		NextAt:      toMilli(s.NextAt),
		Error:       s.Error,
		Settings:    newSettings(&s.Settings),

		LastMessages: newIDs(s.LastMessages),
	}
	return encode(dst, &rec)
}

// DecodeSchedule decodes a record of AppendSchedule.
func DecodeSchedule(user, id string, data []byte) (*posthaste.Schedule, error) {
	var rec schedule
	if err := decode(data, &rec); err != nil {
		return nil, err
	}
	s := &posthaste.Schedule{
		ID:          id,
		User:        user,
		Cron:        rec.Cron,
		Destination: rec.Destination,
		Queue:       rec.Queue,
		Body:        rec.Body,
		Delay:       rec.Delay,
		CallerIP:    rec.CallerIP,
		CreatedAt:   fromMilli(rec.CreatedAt),
		Paused:      rec.Paused,
		LastAt:      fromMilli(rec.LastAt),
		NextAt:      fromMilli(rec.NextAt),
		Error:       rec.Error,
	}
	var err error
	if s.LastMessages, err = restoreIDs(rec.LastMessages); err != nil {
		return nil, err
	}
	return s, rec.Settings.restore(&s.Settings)
}

// flowKey is the stored form of a posthaste.FlowKey.
type flowKey struct {
	Parallelism       int           `cbor:"1,keyasint,omitempty"`
	Rate              int           `cbor:"2,keyasint,omitempty"`
	Period            time.Duration `cbor:"3,keyasint,omitempty"`
	PinnedParallelism bool          `cbor:"4,keyasint,omitempty"`
	PinnedRate        bool          `cbor:"5,keyasint,omitempty"`
	Paused            bool          `cbor:"6,keyasint,omitempty"`
	WindowStartedAt   int64         `cbor:"7,keyasint,omitempty"`
	WindowCount       int           `cbor:"8,keyasint,omitempty"`
	CreatedAt         int64         `cbor:"9,keyasint,omitempty"`
	UsedAt            int64         `cbor:"10,keyasint,omitempty"`
}

// AppendFlowKey appends the record of a flow-control key without the key.
func AppendFlowKey(dst []byte, k *posthaste.FlowKey) []byte {
	return encode(dst, &flowKey{
		Parallelism:       k.Parallelism,
		Rate:              k.Rate,
		Period:            k.Period,
		PinnedParallelism: k.PinnedParallelism,
		PinnedRate:        k.PinnedRate,
		Paused:            k.Paused,
		WindowStartedAt:   toMilli(k.WindowStartedAt),
		WindowCount:       k.WindowCount,
		CreatedAt:         toMilli(k.CreatedAt),
		UsedAt:            toMilli(k.UsedAt),
	})
}

// DecodeFlowKey decodes a record of AppendFlowKey.
func DecodeFlowKey(key string, data []byte) (*posthaste.FlowKey, error) {
	var rec flowKey
	if err := decode(data, &rec); err != nil {
		return nil, err
	}
	return &posthaste.FlowKey{
		Key:               key,
		FlowLimit:         posthaste.FlowLimit{Parallelism: rec.Parallelism, Rate: rec.Rate, Period: rec.Period},
		PinnedParallelism: rec.PinnedParallelism,
		PinnedRate:        rec.PinnedRate,
		Paused:            rec.Paused,
		WindowStartedAt:   fromMilli(rec.WindowStartedAt),
		WindowCount:       rec.WindowCount,
		CreatedAt:         fromMilli(rec.CreatedAt),
		UsedAt:            fromMilli(rec.UsedAt),
	}, nil
}
