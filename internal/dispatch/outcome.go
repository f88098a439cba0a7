package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"posthaste"
)

// statusNonRetryable is the status of a destination that wants no retries, if
// it also says so in a header: alone it is a failure like any other.
const statusNonRetryable = 489

var nonRetryableHeaders = []string{"Upstash-Nonretryable-Error", "Service-Nonretryable-Error"}

// judge returns the outcome of a complete answer. Anything but a 2xx is a
// failed attempt, a redirect included.
func (d *Dispatcher) judge(response *posthaste.Response) posthaste.Outcome {
	outcome := posthaste.Outcome{Response: response}
	switch {
	case isGood(response.Status):
		outcome.Class = posthaste.OutcomeDelivered
	case response.Status == statusNonRetryable && wantsNoRetry(response.Header):
		outcome.Class = posthaste.OutcomePermanent
		outcome.Error = "489: the destination asks for no retry"
	default:
		outcome.Class = posthaste.OutcomeRetryable
		outcome.Error = describeStatus(response.Status)
		outcome.RetryAfter, outcome.HasRetryAfter = d.options.RetryAfter(response.Header, time.Now())
	}
	return outcome
}

func isGood(status int) bool { return status >= 200 && status <= 299 }

func wantsNoRetry(header http.Header) bool {
	for _, name := range nonRetryableHeaders {
		if strings.EqualFold(header.Get(name), "true") {
			return true
		}
	}
	return false
}

// describeStatus returns the number of a status and, if it is a known one, what
// it stands for. The destination's own phrase is not repeated.
func describeStatus(status int) string {
	text := strconv.Itoa(status)
	if reason := http.StatusText(status); reason != "" {
		text += " " + reason
	}
	if status >= 300 && status <= 399 {
		text += ": redirects are not followed"
	}
	return text
}

// permanent returns the outcome of an attempt that can never be made. The
// error's sentence is shown, its cause is not.
func permanent(err error) posthaste.Outcome {
	text := "the destination cannot be requested"
	if shown, ok := errors.AsType[*posthaste.Error](err); ok {
		text = shown.Message
	}
	return posthaste.Outcome{Class: posthaste.OutcomePermanent, Error: text}
}

func retryable(text string) posthaste.Outcome {
	return posthaste.Outcome{Class: posthaste.OutcomeRetryable, Error: text}
}

// unsigned returns the outcome when signing failed, which is our own fault: the
// cause is for our log alone.
func (d *Dispatcher) unsigned(parent context.Context, m *posthaste.Message, cause error) posthaste.Outcome {
	if parent.Err() != nil {
		return retryable(abandoned)
	}
	d.log(slog.LevelError, "attempt.unsigned", m, cause)
	return retryable("the request could not be signed")
}

// unanswered returns the outcome when there was no complete answer.
func (d *Dispatcher) unanswered(parent context.Context, m *posthaste.Message, cause error, host string, limit time.Duration) posthaste.Outcome {
	if parent.Err() != nil {
		return retryable(abandoned)
	}
	d.log(slog.LevelDebug, "attempt.unanswered", m, cause)
	outcome := retryable(explain(cause, host, limit))
	outcome.TimedOut = errors.Is(cause, context.DeadlineExceeded) || isHandshakeTimeout(cause)
	return outcome
}

func (d *Dispatcher) log(level slog.Level, event string, m *posthaste.Message, cause error) {
	d.options.Log.LogAttrs(context.Background(), level, event,
		slog.String("message_id", m.ID.String()),
		slog.String("user", m.User),
		slog.String("error", cause.Error()))
}
