package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// deletedMark and the job type stand behind the name of a deleted topic, which frees the name.
const deletedMark = "~"

// Topic is a row of the topics.
type Topic struct {
	Type    int32
	Name    string
	Config  string // JSON
	Version int64
	Created time.Time
	Deleted bool // then Created is when it was deleted
}

// ErrTopicLimit is the error of a topic that would be more than there may be.
var ErrTopicLimit = errors.New("as many topics as there may be")

// TopicsSince returns the topics that were made or changed after a version.
func (t *Tables) TopicsSince(ctx context.Context, version int64) (topics []Topic, err error) {
	err = t.each(ctx, t.db, func(scan func(...any) error) error {
		topic, err := scanTopic(scan)
		topics = append(topics, topic)
		return err
	}, `SELECT job_type, name, config, version, create_time FROM {p}pqueue_topic_tab WHERE version > ?`, version)
	if err != nil {
		return nil, fmt.Errorf("read the topics: %w", err)
	}
	return topics, nil
}

func scanTopic(scan func(...any) error) (topic Topic, err error) {
	var created int64
	err = scan(&topic.Type, &topic.Name, &topic.Config, &topic.Version, &created)
	topic.Name, _, topic.Deleted = strings.Cut(topic.Name, deletedMark)
	topic.Created = fromUnix(created)
	return topic, err
}

// PutTopic makes a topic or, if it is there and change says so, gives it another configuration. There are no more topics than limit.
//
// It raises the topics' counter first. So one transaction at a time is here, and what it reads then is the latest.
func (t *Tables) PutTopic(ctx context.Context, name, config string, change bool, limit int) (topic Topic, created bool, err error) {
	err = t.In(ctx, func(tx *sql.Tx) (err error) {
		version, err := t.raise(ctx, tx, topicsCounter)
		if err != nil {
			return err
		}
		found, err := t.findTopic(ctx, tx, name, &topic)
		switch {
		case err != nil:
			return err
		case !found:
			created = true
			topic, err = t.insertTopic(ctx, tx, Topic{Name: name, Config: config, Version: version, Created: time.Now()}, limit)
			return err
		case !change:
			return nil
		}
		topic.Config, topic.Version = config, version
		return t.exec(ctx, tx, `UPDATE {p}pqueue_topic_tab SET config = ?, version = ? WHERE job_type = ?`, config, version, topic.Type)
	})
	if err != nil {
		return Topic{}, false, fmt.Errorf("put topic %s: %w", name, err)
	}
	return topic, created, nil
}

func (t *Tables) findTopic(ctx context.Context, tx *sql.Tx, name string, topic *Topic) (found bool, err error) {
	err = t.each(ctx, tx, func(scan func(...any) error) (err error) {
		found = true
		*topic, err = scanTopic(scan)
		return err
	}, `SELECT job_type, name, config, version, create_time FROM {p}pqueue_topic_tab WHERE name = ?`, name)
	return found, err
}

// DeleteTopic deletes a topic, if it is there. Its row stays under another name, for the instances that have yet to learn of it, and for
// the tasks that were added to the topic at that moment.
func (t *Tables) DeleteTopic(ctx context.Context, name string) (topic Topic, found bool, err error) {
	err = t.In(ctx, func(tx *sql.Tx) error {
		version, err := t.raise(ctx, tx, topicsCounter)
		if err != nil {
			return err
		}
		if found, err = t.findTopic(ctx, tx, name, &topic); err != nil || !found {
			return err
		}
		topic.Version, topic.Deleted, topic.Created = version, true, time.Now()
		return t.exec(ctx, tx, `UPDATE {p}pqueue_topic_tab SET name = ?, version = ?, create_time = ? WHERE job_type = ?`,
			fmt.Sprint(name, deletedMark, topic.Type), version, unix(topic.Created), topic.Type)
	})
	if err != nil {
		return Topic{}, false, fmt.Errorf("delete topic %s: %w", name, err)
	}
	return topic, found, nil
}

// DeletedTopics returns the job types of topics that were deleted before a moment.
func (t *Tables) DeletedTopics(ctx context.Context, before time.Time) (types []int32, err error) {
	err = t.each(ctx, t.db, func(scan func(...any) error) error {
		var jobType int32
		err := scan(&jobType)
		types = append(types, jobType)
		return err
	}, `SELECT job_type FROM {p}pqueue_topic_tab WHERE name LIKE ? AND create_time < ? ORDER BY job_type`, "%"+deletedMark+"%", unix(before))
	if err != nil {
		return nil, fmt.Errorf("read the deleted topics: %w", err)
	}
	return types, nil
}

// ForgetTopics removes the rows of deleted topics. A row that is gone already, or whose topic is not deleted, is left alone.
func (t *Tables) ForgetTopics(ctx context.Context, types []int32) error {
	for _, jobType := range types {
		if err := t.exec(ctx, t.db, `{delete} FROM {p}pqueue_topic_tab WHERE job_type = ? AND name LIKE ?`, jobType, "%"+deletedMark+"%"); err != nil {
			return fmt.Errorf("remove the rows of deleted topics: %w", err)
		}
	}
	return nil
}

// insertTopic gives the topic a job type that no other ever had.
func (t *Tables) insertTopic(ctx context.Context, tx *sql.Tx, topic Topic, limit int) (Topic, error) {
	there := 0
	err := t.each(ctx, tx, func(scan func(...any) error) error { return scan(&there) }, `SELECT COUNT(*) FROM {p}pqueue_topic_tab WHERE name NOT LIKE ?`, "%"+deletedMark+"%")
	if err != nil {
		return topic, err
	}
	if there >= limit {
		return topic, ErrTopicLimit
	}
	jobType, err := t.raise(ctx, tx, typeCounter)
	if err != nil {
		return topic, err
	}
	topic.Type = int32(jobType)
	return topic, t.exec(ctx, tx, `INSERT INTO {p}pqueue_topic_tab (job_type, name, config, version, create_time) VALUES (?, ?, ?, ?, ?)`,
		topic.Type, topic.Name, topic.Config, topic.Version, unix(topic.Created))
}
