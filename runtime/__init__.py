"""What every Fanfold process needs from its surroundings: settings, storage, broker, logs, errors.

Nothing here knows what a job is. Only this package imports boto3 and talks to Redis.
"""
