package wire

import (
	"net/url"
	"time"

	"posthaste"
	"posthaste/internal/eventlog"
)

// buckets are the buckets of stats, each with the interval that is counted without fromDate.
var buckets = map[string]struct{ length, interval time.Duration }{
	"hour": {time.Hour, 24 * time.Hour},
	"day":  {24 * time.Hour, 30 * 24 * time.Hour},
}

// maxBuckets bounds an answer: a month of hours.
const maxBuckets = 31 * 24

// statsCount limits the hosts and the paths.
var statsCount = Count{Default: 10, Most: 100}

// Stats reads the parameters of a count of the log, and returns the name of its buckets.
func Stats(params url.Values, now time.Time) (query eventlog.StatsQuery, bucket string, err error) {
	p := parameters(params)
	if err := p.checkNames(stats, "bucket", "count"); err != nil {
		return query, "", err
	}
	filter, err := p.filter(stats)
	if err != nil {
		return query, "", err
	}
	if query.Most, err = statsCount.Read(params); err != nil {
		return query, "", err
	}
	if bucket, err = p.one("bucket"); err != nil {
		return query, "", err
	}
	if bucket == "" {
		bucket = "hour"
	}
	b, ok := buckets[bucket]
	if !ok {
		return query, "", invalid("bucket", bucket, "hour or day")
	}
	query.Filter, _, _ = filter.Dated()
	query.Bucket = b.length
	last := now
	if filter.Until > 0 {
		last = filter.Until.Time()
	}
	query.Until = last.UTC().Truncate(b.length).Add(b.length)
	query.From = query.Until.Add(-b.interval)
	if filter.From > 0 {
		query.From = filter.From.Time().UTC().Truncate(b.length)
	}
	switch n := query.Buckets(); {
	case !query.From.Before(query.Until):
		return query, "", posthaste.Invalidf("fromDate %d is after toDate %d", filter.From.Time().UnixMilli(), last.UnixMilli())
	case n > maxBuckets:
		return query, "", posthaste.Invalidf("fromDate to toDate are %d buckets of one %s, at most %d are accepted: take a shorter interval, or bucket=day", n, bucket, maxBuckets)
	}
	return query, bucket, nil
}
