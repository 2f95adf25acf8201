ALTER TABLE job ADD COLUMN plan jsonb CONSTRAINT job_plan_is_object CHECK (jsonb_typeof(plan) = 'object');
