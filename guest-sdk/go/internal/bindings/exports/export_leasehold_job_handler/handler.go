//go:build wasip1

// Package export_leasehold_job_handler is what the generated exports call; its name is theirs.
package export_leasehold_job_handler

import (
	"leasehold/internal/bindings/imports/leasehold_job_types"
	"leasehold/internal/guest"
	"leasehold/internal/host"
	wit "leasehold/internal/wit/types"
)

// Handle is one attempt.
func Handle(
	info leasehold_job_types.RunInfo, input []uint8,
) wit.Result[[]uint8, leasehold_job_types.HandlerError] {
	if guest.Handler == nil {
		panic("this plugin has no handler: call leasehold.Handle in an init function")
	}
	output, failed := guest.Handler(host.Run{
		ID: info.RunId, Tenant: info.Tenant, Job: info.Job, SlotMS: info.SlotMs, Attempt: info.Attempt,
		MaxAttempts: info.MaxAttempts, Fence: info.Fence, Reason: info.Reason, Metadata: guest.Fields(info.Metadata),
	}, input)
	if failed == nil {
		return wit.Ok[[]uint8, leasehold_job_types.HandlerError](output)
	}
	told := leasehold_job_types.ErrorInfo{
		Code: guest.Text(failed.Code), Message: guest.Text(failed.Message), Details: guest.Tuples(failed.Details),
	}
	var err leasehold_job_types.HandlerError
	switch failed.Kind {
	case host.Cancelled:
		err = leasehold_job_types.MakeHandlerErrorCancelled()
	case host.Permanent:
		err = leasehold_job_types.MakeHandlerErrorPermanent(told)
	default:
		err = leasehold_job_types.MakeHandlerErrorRetryable(told)
	}
	return wit.Err[[]uint8, leasehold_job_types.HandlerError](err)
}
