package queue_job

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/record"
)

// ErrOtherName is the cause of an error of [Jobs.RenameType] if the type does not have the name that it is to lose, and of an error of
// a Runner whose [Config.ServiceName] is not the type's name in the tables.
var ErrOtherName = errors.New("the job type has another name in the tables")

// RenameType gives a job type another name in the tables, where the [Config.ServiceName] of those who run it first stands. From is the
// name that it has; if it has another one, the error is [ErrOtherName]. Programs that start later with the old name are refused.
// So while old programs may still start, let the new ones have [Config.RenamedFrom], and rename the type afterwards.
func (j *Jobs) RenameType(ctx context.Context, ex Executor, jobType int32, from, to string) error {
	if !isText(to) {
		return typeErr(jobType, fmt.Errorf("its new name %q is no text: it has a zero byte or is not UTF-8; use another name", to))
	}
	if to == "" || utf8.RuneCountInString(to) > record.NameMax {
		return typeErr(jobType, fmt.Errorf("its new name has %d characters; use 1 to %d", utf8.RuneCountInString(to), record.NameMax))
	}
	if from == to {
		return nil
	}
	st, err := j.through(ex)
	if err != nil {
		return typeErr(jobType, err)
	}
	renamed, err := notingType(ctx, st, "rename", jobType, to, func(st *record.Store) (bool, error) { return st.RenameType(ctx, jobType, from, to) })
	if err != nil || renamed {
		return typeErr(jobType, err)
	}
	names, err := st.TypeNames(ctx, []int32{jobType})
	switch {
	case err != nil:
		return typeErr(jobType, err)
	case names[jobType] == to: // it was renamed before
		return nil
	case names[jobType] == "":
		return typeErr(jobType, fmt.Errorf("%w: it has none; the first Runner that runs it gives it its name", ErrOtherName))
	}
	return typeErr(jobType, fmt.Errorf("%w: %q", ErrOtherName, names[jobType]))
}
